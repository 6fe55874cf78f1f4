// SPDX-License-Identifier: Apache-2.0
// The name of a lock, and its name inside a store. Values and pure functions.
#pragma once
#include <compare>
#include <string>
#include <string_view>
#include "core/error.hpp"

namespace dlock {

// The name of a lock: 1 to 200 bytes of valid UTF-8 without control characters (C0, DEL, C1).
class Key {
 public:
  // Errc::usage: the message names --key, the escaped value and the rule.
  static Result<Key> parse(std::string_view text);
  const std::string& text() const noexcept { return text_; }
  auto operator<=>(const Key&) const = default;

 private:
  explicit Key(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// Returns the name of `key` in a store, for dlock's own recipes. Different keys have different
// names, and each name is safe as a file name. Every byte outside [A-Za-z0-9._-] becomes %XX
// (upper-case hex), and so does a leading dot. If the result has more than 200 bytes, the name is
// its first 120 bytes (never cut inside a %XX) + "%~" + the first 40 hex digits of the key's
// SHA-256.
std::string store_name(const Key& key);

// Return 64 and 40 lower-case hex digits (FIPS 180-4).
std::string sha256_hex(std::string_view bytes);
std::string sha1_hex(std::string_view bytes);

// The inverse of store_name(). Errc::usage: the name is shortened, and only the record has the full
// key; or the name belongs to another program.
Result<Key> key_from_store_name(std::string_view name);

}  // namespace dlock
