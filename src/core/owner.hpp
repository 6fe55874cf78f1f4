// SPDX-License-Identifier: Apache-2.0
// The id of a holder or waiter. It is a value; any thread may use it.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlock {

// 128 random bits, new for each attempt to acquire (Request in lease.hpp). By the owner a store
// recognises a repeated request whose reply was lost. An owner is a secret: a process that knows it
// can renew and release the lock.
struct Owner {
  std::array<std::uint8_t, 16> bytes{};

  // Reads getrandom(2); aborts if the kernel has no random numbers.
  static Owner random();
  static std::optional<Owner> parse(std::string_view hex);  // exactly 32 lower-case hex digits
  std::string hex() const;
  auto operator<=>(const Owner&) const = default;
};

}  // namespace dlock
