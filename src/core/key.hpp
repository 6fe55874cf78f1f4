// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <string>
#include <string_view>
#include "core/error.hpp"

namespace dlock {

// The name of a lock: 1 to 200 bytes of valid UTF-8 without control characters (C0, DEL, C1).
class Key {
 public:
  // Errc::usage; the message names --key, the value (escaped) and the rule
  static Result<Key> parse(std::string_view text);
  const std::string& text() const noexcept { return text_; }
  auto operator<=>(const Key&) const = default;

 private:
  explicit Key(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// The name of `key` in a store, for dlock's own recipes: every byte outside [A-Za-z0-9._-] and a
// leading dot become %XX (upper-case hex); a result over 200 bytes becomes its first 120 bytes (cut
// before a %XX, never inside one) + "%~" + the first 40 hex digits of the key's SHA-256. Unique per
// key, safe as a file name.
std::string store_name(const Key& key);

std::string sha256_hex(std::string_view bytes);  // 64 lower-case digits (FIPS 180-4)

// The inverse if there is one: nothing for a shortened or foreign name (the record has the full
// key).
Result<Key> key_from_store_name(std::string_view name);

}  // namespace dlock
