// SPDX-License-Identifier: Apache-2.0
// Parses numbers in untrusted text. It refuses spaces and a plus sign, ignores the locale, and
// accepts a minus sign only if T is signed. Pure functions.
#pragma once
#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace dlock {

// Removes the number at the beginning of `rest` and returns it. nullopt: there is no number, or it
// does not fit into T; then `rest` is unchanged.
template <class T>
std::optional<T> leading_number(std::string_view& rest, int base = 10) noexcept {
  T value{};
  std::from_chars_result r{};
  if constexpr (std::is_floating_point_v<T>)
    r = std::from_chars(rest.data(), rest.data() + rest.size(), value, std::chars_format::fixed);
  else r = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
  if (r.ec != std::errc{}) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(r.ptr - rest.data()));
  return value;
}

// Parses all of `text` as one number, or returns nullopt. A floating T may have a fraction, but no
// exponent.
template <class T>
std::optional<T> parse_number(std::string_view text, int base = 10) noexcept {
  const auto value = leading_number<T>(text, base);
  return text.empty() ? value : std::nullopt;
}

}  // namespace dlock
