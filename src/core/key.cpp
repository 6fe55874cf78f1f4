// SPDX-License-Identifier: Apache-2.0
#include "core/key.hpp"
#include <fmt/format.h>
#include <sha1.h>
#include <sha2.h>
#include <array>
#include <cstdint>
#include "core/text.hpp"

namespace dlock {
namespace {

constexpr std::size_t longest_key = 200;
constexpr std::size_t longest_store_name = 200;
constexpr std::size_t kept_of_long_name = 120;
constexpr std::size_t hash_digits = 40;
constexpr std::string_view shortened_mark = "%~";  // not an escape, so no encoded key contains it

// Returns the rule that the text breaks; empty: none.
std::string what_is_wrong(std::string_view text) {
  if (text.empty()) return "is empty";
  if (text.size() > longest_key) return fmt::format("is {} bytes long", text.size());
  while (!text.empty()) {
    const Utf8 c = utf8_at(text);
    if (c.length == 0) return "is not valid UTF-8";
    if (is_control(c.code)) return "has a control character";
    text.remove_prefix(c.length);
  }
  return {};
}

}  // namespace

Result<Key> Key::parse(std::string_view text) {
  const std::string wrong = what_is_wrong(text);
  if (wrong.empty()) return Key{std::string{text}};
  return fail(Errc::usage,
              "--key {} {}; a key is 1 to {} bytes of UTF-8 without control characters",
              quoted(text), wrong, longest_key);
}

std::string sha256_hex(std::string_view bytes) {
  std::array<char, SHA256_DIGEST_STRING_LENGTH> hex{};
  SHA256Data(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), hex.data());
  return hex.data();
}

std::string sha1_hex(std::string_view bytes) {
  std::array<char, SHA1_DIGEST_STRING_LENGTH> hex{};
  SHA1Data(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), hex.data());
  return hex.data();
}

std::string store_name(const Key& key) {
  const std::string& text = key.text();
  std::string name = percent_encode(text);
  if (text.front() == '.')
    name.replace(0, 1, "%2E");  // a file name must not be hidden, "." or ".."
  if (name.size() <= longest_store_name) return name;
  std::size_t cut = kept_of_long_name;
  if (name[cut - 1] == '%') {
    cut -= 1;
  } else if (name[cut - 2] == '%') {
    cut -= 2;
  }
  name.resize(cut);
  return name.append(shortened_mark).append(sha256_hex(text), 0, hash_digits);
}

Result<Key> key_from_store_name(std::string_view name) {
  const auto foreign = [&] {
    return fail(Errc::usage, "{} is not the stored name of a key", quoted(name));
  };
  const auto text = percent_decode(name);  // "%~" is not an escape, so a shortened name fails here
  if (!text) return foreign();
  auto key = Key::parse(*text);
  // Each key has exactly one name, so any other name is foreign.
  if (!key || store_name(*key) != name) return foreign();
  return key;
}

}  // namespace dlock
