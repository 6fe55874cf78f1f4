// SPDX-License-Identifier: Apache-2.0
#include "core/text.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock {
namespace {

constexpr std::string_view upper_hex = "0123456789ABCDEF";
constexpr std::string_view lower_hex = "0123456789abcdef";

bool stays(char c) noexcept {
  return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-';
}

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns whether the character moves or reorders text on a terminal.
bool speaks_to_terminal(char32_t c) noexcept {
  return is_control(c) || c == 0x061c || c == 0x200e || c == 0x200f || c == 0x2028 || c == 0x2029 ||
         (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string_view first_sentence(std::string_view text) noexcept {
  std::size_t end = 0;
  for (; end < text.size() && text[end] != '(' && text[end] != '\n'; ++end) {
    const bool stop = std::string_view{".:;!?"}.find(text[end]) != text.npos;
    if (stop && (end + 1 == text.size() || text[end + 1] == ' ' || text[end + 1] == '\n')) break;
  }
  while (end > 0 && text[end - 1] == ' ') --end;
  return text.substr(0, end);
}

std::string percent_encode(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto other = std::ranges::find_if_not(bytes, stays);
    out.append(bytes.begin(), other);
    if (other == bytes.end()) break;
    const auto byte = static_cast<unsigned char>(*other);
    out += {'%', upper_hex[byte >> 4U], upper_hex[byte & 15U]};
    bytes = {other + 1, bytes.end()};
  }
  return out;
}

Result<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = high < 0 ? -1 : hex_value(text[i + 2]);
    // The text may be a secret: the message names only the position.
    if (low < 0)
      return fail(Errc::usage, "the '%' at byte {} is not followed by two hex digits", i + 1);
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string printable(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8 c = utf8_at(bytes);
    const std::size_t length = c.length == 0 ? 1 : c.length;
    if (c.length == 0 || speaks_to_terminal(c.code)) {
      for (std::size_t i = 0; i < length; ++i) {
        const auto byte = static_cast<unsigned char>(bytes[i]);
        out += {'\\', 'x', lower_hex[byte >> 4U], lower_hex[byte & 15U]};
      }
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return out;
}

std::string quoted(std::string_view bytes, std::size_t longest) {
  if (bytes.size() <= longest) return fmt::format("'{}'", printable(bytes));
  const auto continues = [&](std::size_t i) {
    return (static_cast<unsigned char>(bytes[i]) & 0xc0U) == 0x80;
  };
  std::size_t end = longest;
  while (end > 0 && longest - end < 3 && continues(end)) --end;  // do not cut inside a character
  return fmt::format("'{}'...", printable(bytes.substr(0, end)));
}

}  // namespace dlock
