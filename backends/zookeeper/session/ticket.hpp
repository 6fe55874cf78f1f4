// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlock::zookeeper {

// With these another process can resume a session: 16 and 32 hex digits.
struct Ticket {
  std::int64_t id = 0;
  std::string password;  // 16 bytes

  std::string text() const;
  static std::optional<Ticket> parse(std::string_view);
};

}  // namespace dlock::zookeeper
