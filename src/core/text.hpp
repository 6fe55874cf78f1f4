// SPDX-License-Identifier: Apache-2.0
// Characters and parts of text, independent of the locale. Pure functions.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include "core/error.hpp"

namespace dlock {

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

inline std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Adds a part to a list in text, after a separator if the list is not empty.
inline void add_part(std::string& list, std::string_view part, std::string_view separator = ", ") {
  if (!list.empty()) list += separator;
  list += part;
}

// Removes from `rest` the text before the first character of `stops`, and returns that text.
inline std::string_view next_until(std::string_view& rest, std::string_view stops) noexcept {
  const std::string_view head = rest.substr(0, rest.find_first_of(stops));
  rest.remove_prefix(head.size());
  return head;
}

// Removes from `rest` the text before the first `separator`, and the separator itself. Returns the
// text without the separator. If there is no separator, it removes and returns all of `rest`.
inline std::string_view next_part(std::string_view& rest, char separator) noexcept {
  const std::string_view word = rest.substr(0, rest.find(separator));
  rest.remove_prefix(word.size() < rest.size() ? word.size() + 1 : rest.size());
  return word;
}

// Returns the text before its first '(' or newline, or before its first '.', ':', ';', '!' or '?'
// that is followed by a space, a newline or the end of the text.
std::string_view first_sentence(std::string_view text) noexcept;

struct Utf8 {
  std::size_t length;  // bytes of the character; 0: not UTF-8
  char32_t code;
};

// Decodes the character at the start of `bytes` (not empty) by RFC 3629: no overlong form, no
// surrogate, at most U+10FFFF.
constexpr Utf8 utf8_at(std::string_view bytes) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < length) return {0, 0};
  char32_t code = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {0, 0};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const char32_t smallest = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (code < smallest || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {0, 0};
  return {length, code};
}

constexpr bool is_control(char32_t c) noexcept { return c < 0x20 || (c >= 0x7f && c <= 0x9f); }

// Writes %XX for every byte outside [A-Za-z0-9._-]. For sequencers, records and names in a store.
std::string percent_encode(std::string_view bytes);
// The inverse of percent_encode(). Errc::usage: an escape is broken.
Result<std::string> percent_decode(std::string_view text);

// Makes untrusted text safe for messages and terminals. C0, DEL, C1, bidi controls (U+061C, U+200E,
// U+200F, U+202A-202E, U+2066-2069), line separators and invalid UTF-8 become \xNN.
std::string printable(std::string_view bytes);
// Returns printable() between single quotes, for messages about bad input. If the text has more
// than `longest` bytes, it is cut and ends in "...".
std::string quoted(std::string_view bytes, std::size_t longest = 60);

}  // namespace dlock
