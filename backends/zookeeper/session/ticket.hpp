// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include "core/clock.hpp"

namespace dlock::zookeeper {

// With these another process can resume a session: 16 and 32 hex digits, `-` and two times in ms.
struct Ticket {
  std::int64_t id = 0;
  std::string password;  // 16 bytes
  // The timeout with which the session was created, of which lock_delay is no part of the lease: a
  // new leader tracks the session by it, so every resume asks for it. Zero: a handle of 0.1.0, which
  // does not say it.
  Duration timeout{}, lock_delay{};

  std::string text() const;
  static std::optional<Ticket> parse(std::string_view);
};

}  // namespace dlock::zookeeper
