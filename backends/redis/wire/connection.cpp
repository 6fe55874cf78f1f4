// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/connection.hpp"
#include <string>

namespace dlock::redis {

void Connection::add(std::span<const std::string_view> command) {
  std::string bytes;
  append_command(bytes, command);
  Transport::add(bytes);
}

Result<std::optional<Reply>> Connection::receive() {
  for (std::string received;; received.clear()) {
    auto reply = reader_.next();
    if (!reply || *reply) return reply;
    TRY(more, Transport::receive(received));
    if (!more) return std::optional<Reply>{};
    TRY_VOID(reader_.feed(received));
  }
}

}  // namespace dlock::redis
