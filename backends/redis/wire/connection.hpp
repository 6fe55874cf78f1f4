// SPDX-License-Identifier: Apache-2.0
// A connection to a server: commands in, replies out, in the order of the commands. Nothing here
// waits.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include "common/net/transport.hpp"
#include "redis/wire/reply.hpp"

namespace dlock::redis {

class Connection : public Transport {
 public:
  using Transport::Transport;

  void add(std::span<const std::string_view> command);  // into the buffer
  // The next reply that has arrived. Errc::unavailable: the connection is broken. Errc::protocol:
  // the peer does not speak RESP. In both cases the connection is useless afterwards.
  Result<std::optional<Reply>> receive();

 private:
  ReplyReader reader_;
};

}  // namespace dlock::redis
