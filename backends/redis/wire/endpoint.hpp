// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

namespace dlock::redis {

// The address of a server: host and port, or a unix socket.
struct Endpoint {
  std::string host;
  std::uint16_t port = 6379;
  std::string socket;  // path; when not empty, host and port are not used

  std::string text() const;  // "db1:6379", "[::1]:6379", "/run/redis.sock"
  bool operator==(const Endpoint&) const = default;
};

}  // namespace dlock::redis
