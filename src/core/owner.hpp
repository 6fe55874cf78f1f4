// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlock {

// A holder or waiter: 128 random bits, new for each attempt to acquire (lease.hpp, Request). It
// recognises the lost reply of a repeated request, and it is a secret: a process that knows it can
// renew and release. By value, no allocation.
struct Owner {
  std::array<std::uint8_t, 16> bytes{};

  // from getrandom(2); aborts when the kernel has none
  static Owner random();
  static std::optional<Owner> parse(std::string_view hex);  // exactly 32 lower-case hex digits
  std::string hex() const;
  auto operator<=>(const Owner&) const = default;
};

}  // namespace dlock
