// SPDX-License-Identifier: Apache-2.0
// Numbers in untrusted text: without spaces, plus signs, locales; a minus sign only if T is signed.
#pragma once
#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace dlock {

// Takes the number at the beginning of `rest`. nullopt: there is none, or it does not fit into T;
// then nothing is taken.
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

// The number that all of `text` is, or nullopt. A fraction without an exponent for a floating T.
template <class T>
std::optional<T> parse_number(std::string_view text, int base = 10) noexcept {
  const auto value = leading_number<T>(text, base);
  return text.empty() ? value : std::nullopt;
}

}  // namespace dlock
