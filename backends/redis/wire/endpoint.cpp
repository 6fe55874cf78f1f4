// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/endpoint.hpp"
#include <fmt/format.h>

namespace dlock::redis {

std::string Endpoint::text() const {
  if (!socket.empty()) return socket;
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

}  // namespace dlock::redis
