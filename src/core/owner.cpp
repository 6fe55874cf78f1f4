// SPDX-License-Identifier: Apache-2.0
#include "core/owner.hpp"
#include <sys/random.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace dlock {
namespace {

constexpr std::string_view digits = "0123456789abcdef";

}  // namespace

Owner Owner::random() {
  Owner owner;
  std::size_t have = 0;
  while (have < owner.bytes.size()) {
    const ssize_t n = ::getrandom(owner.bytes.data() + have, owner.bytes.size() - have, 0);
    // Without random numbers two holders could have the same id.
    if (n < 0 && errno != EINTR) {
      ::perror("dlock: getrandom");
      std::abort();
    }
    if (n > 0) have += static_cast<std::size_t>(n);
  }
  return owner;
}

std::optional<Owner> Owner::parse(std::string_view hex) {
  Owner owner;
  if (hex.size() != 2 * owner.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const std::size_t value = digits.find(hex[i]);
    if (value == digits.npos) return std::nullopt;
    owner.bytes[i / 2] = static_cast<std::uint8_t>(std::size_t{owner.bytes[i / 2]} << 4U | value);
  }
  return owner;
}

std::string Owner::hex() const {
  std::string out;
  for (const std::uint8_t byte : bytes) out += {digits[byte >> 4U], digits[byte & 15U]};
  return out;
}

}  // namespace dlock
