// SPDX-License-Identifier: Apache-2.0
#include "core/key.hpp"
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>
#include "core/text.hpp"
#include "pure/message.hpp"
#include "pure/random.hpp"

using namespace dlock;
using namespace dlock::test;
using Catch::Contains;

namespace {

std::string text_of(const Result<std::string>& r) { return r ? *r : "error: " + r.error().message; }
Key key(std::string_view text) { return Key::parse(text).value(); }

// A random key: any permitted code points, 1 to 200 bytes.
std::string random_key(Random& random) {
  const std::size_t longest = 1 + random.below(200);
  std::string out;
  while (true) {
    static constexpr char32_t tops[] = {0x7f, 0x7f, 0x800, 0x10000, 0x110000};
    const char32_t c = static_cast<char32_t>(random.below(tops[random.below(5)]));
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0xd800 && c < 0xe000)) continue;
    std::string one;
    const auto put = [&](char32_t byte) { one += static_cast<char>(byte); };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xc0 | c >> 6), put(0x80 | (c & 63));
    } else if (c < 0x10000) {
      put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
    } else {
      put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63)),
          put(0x80 | (c & 63));
    }
    if (out.size() + one.size() > longest) {
      if (!out.empty()) return out;
      continue;
    }
    out += one;
  }
}

}  // namespace

TEST_CASE("a key is 1 to 200 bytes of UTF-8 without control characters") {
  for (const std::string& good : {std::string{"a"}, std::string{"nightly/backup {db} 50%"},
                                  std::string(200, 'x'), std::string{" "}, std::string{"."},
                                  std::string{".."}, std::string{"h\u00e9 \u65e5\u672c \U0001f512"},
                                  std::string{"\xc2\xa0"}, std::string{"\xf4\x8f\xbf\xbf"},
                                  std::string{"\xed\x9f\xbf"}, std::string{"\xee\x80\x80"}}) {
    CAPTURE(good);
    REQUIRE(Key::parse(good));
    CHECK(Key::parse(good)->text() == good);
  }

  const auto refused = [](const std::string& why, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      CAPTURE(printable(text.substr(0, 40)));
      const auto r = Key::parse(text);
      REQUIRE_FALSE(r);
      CHECK(is_good_message(r.error()));
      CHECK_THAT(r.error().message, Contains("--key") && Contains(why) &&
                                        Contains("1 to 200 bytes") && Contains(quoted(text)));
      CHECK(r.error().message.size() < 400);
    }
  };
  refused("is empty", {""});
  refused("is 201 bytes long", {std::string(201, 'x')});
  refused("is 1048576 bytes long", {std::string(1 << 20, 'x')});
  refused("control character", {std::string("a\0b", 3), "a\nb", "\x1b[31m", "\x1f", "\x7f",
                                "\xc2\x80", "\xc2\x9b", "\xc2\x9f"});
  // a continuation alone, cut, without one
  refused("not valid UTF-8",
          {"\x80", "a\xc3", "\xe2\x82", "\xf0\x9f\x94", "\xc3(", "\xe2\x28\xa1", "\xf0\x9f\x94("});
  // overlong, surrogates, U+110000, never a lead byte
  refused("not valid UTF-8",
          {"\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xe0\x80\xaf", "\xf0\x8f\xbf\xbf"});
  refused("not valid UTF-8", {"\xed\xa0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80"});
  refused("not valid UTF-8", {"\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xff"});
}

TEST_CASE("store names are safe as file names and readable") {
  struct Row {
    std::string key, name;
  };
  const Row table[] = {
      {"nightly", "nightly"},
      {"A.b_c-9", "A.b_c-9"},
      {"a/b", "a%2Fb"},
      {"../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"},
      {".", "%2E"},
      {"..", "%2E."},
      {".hidden", "%2Ehidden"},
      {"100% {x}~", "100%25%20%7Bx%7D%7E"},
      {"\u00e9", "%C3%A9"},
  };
  for (const Row& row : table) {
    CAPTURE(row.key);
    CHECK(store_name(key(row.key)) == row.name);
    REQUIRE(key_from_store_name(row.name));
    CHECK(key_from_store_name(row.name)->text() == row.key);
  }
}

TEST_CASE("a long store name is truncated and carries a hash of the key") {
  // The expected hashes are from sha256sum(1).
  const std::string fits(200, 'x');
  CHECK(store_name(key(fits)) == fits);

  const std::string spaces(67, ' ');  // 201 bytes encoded
  std::string kept;
  for (int i = 0; i < 40; ++i) kept += "%20";
  CHECK(store_name(key(spaces)) == kept + "%~" + "e2cab77d431b1ce5edf604512fbeec4470f0b386");

  // Truncation never splits a %XX: the limit falls behind one, at each place inside one, and before
  // one.
  for (const std::size_t letters : {0U, 1U, 2U}) {
    const std::string text = std::string(letters, 'a') + spaces;
    const std::string name = store_name(key(text));
    const std::size_t mark = name.find("%~");
    CAPTURE(name);
    CHECK(mark == (letters == 0 ? 120 : 117 + letters));
    CHECK(name.size() == mark + 2 + 40);
    CHECK(percent_decode(name.substr(0, mark)));
    CHECK(text.starts_with(percent_decode(name.substr(0, mark)).value()));
    CHECK_FALSE(key_from_store_name(name));
  }
  // Keys with equal beginnings stay distinct.
  CHECK(store_name(key(spaces + "a")) != store_name(key(spaces + "b")));
  // No encoded key equals another key's shortened name.
  CHECK(store_name(key("a%~b")) == "a%25%7Eb");
}

TEST_CASE("names not made by dlock are not keys") {
  for (const std::string name : {"", "a b", "a%2fb", "a%", "a%2", "a%zz", "%41", ".hidden", "a/b",
                                 "%00", "%FF", "x%~0011", "%C2%80", "\xff"}) {
    CAPTURE(printable(name));
    const auto r = key_from_store_name(name);
    REQUIRE_FALSE(r);
    CHECK(is_good_message(r.error()));
  }
  CHECK_FALSE(key_from_store_name(std::string(201, 'a')));
}

TEST_CASE("10,000 random keys are decoded from their store names") {
  Random random{seed()};
  std::set<std::string> keys, names;
  std::size_t shortened = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = random_key(random);
    const auto parsed = Key::parse(text);
    if (!parsed) FAIL("refused: " << printable(text));
    const std::string name = store_name(*parsed);
    const bool safe =
        name.size() <= 200 && !name.empty() && name.front() != '.' &&
        name.find_first_not_of(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-%~") == name.npos;
    if (!safe) FAIL("unsafe: " << name << " for " << text);
    keys.insert(text), names.insert(name);
    const auto back = key_from_store_name(name);
    if (name.find('~') != name.npos) {
      ++shortened;
      if (back) FAIL("shortened, yet read back: " << name);
    } else if (!back || back->text() != text) {
      FAIL("lost: " << text << " as " << name);
    }
  }
  CHECK(keys.size() == names.size());  // one name per key
  CHECK(shortened > 100);
}

TEST_CASE("percent encoding") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK(percent_decode(percent_encode(all)).value() == all);
  CHECK(percent_encode("azAZ09._-") == "azAZ09._-");
  CHECK(percent_encode(std::string_view("\0 ~/%{}:&=\xff", 11)) ==
        "%00%20%7E%2F%25%7B%7D%3A%26%3D%FF");
  CHECK(text_of(percent_decode("%2f%2F")) == "//");
  CHECK(text_of(percent_decode("a+b c")) == "a+b c");
  CHECK(text_of(percent_decode("")) == "");
  CHECK_FALSE(percent_decode(std::string_view("%41", 2)));  // bytes behind the view are not read
  for (const std::string bad :
       {"%", "%2", "a%", "a%2", "%zz", "%2g", "%g2", "%%41", "% 41", "%-1", "%+1"}) {
    CAPTURE(bad);
    REQUIRE_FALSE(percent_decode(bad));
    CHECK(is_good_message(percent_decode(bad).error()));
  }
}

TEST_CASE("printable() lets no terminal control sequence through") {
  struct Row {
    std::string in, out;
  };
  const Row table[] = {
      {"plain 'text' \"quoted\" \\ ~", "plain 'text' \"quoted\" \\ ~"},
      {"h\u00e9 \u65e5\u672c \U0001f512", "h\u00e9 \u65e5\u672c \U0001f512"},
      {std::string("\0", 1), "\\x00"},
      {"\x1b[2J\r\n\t", "\\x1b[2J\\x0d\\x0a\\x09"},
      {"\x7f", "\\x7f"},
      {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f\xc2\xa0"},
      {"\u061c\u200e\u200f", "\\xd8\\x9c\\xe2\\x80\\x8e\\xe2\\x80\\x8f"},
      {"\u2028\u2029", "\\xe2\\x80\\xa8\\xe2\\x80\\xa9"},
      {"\u202a\u202b\u202c\u202d\u202e",
       "\\xe2\\x80\\xaa\\xe2\\x80\\xab\\xe2\\x80\\xac\\xe2\\x80\\xad\\xe2\\x80\\xae"},
      {"\u2066\u2067\u2068\u2069", "\\xe2\\x81\\xa6\\xe2\\x81\\xa7\\xe2\\x81\\xa8\\xe2\\x81\\xa9"},
      {"\u2027\u202f\u2065\u206a", "\u2027\u202f\u2065\u206a"},  // their neighbours
      {"a\xff\x80z", "a\\xff\\x80z"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
      {"\xc0\x9b", "\\xc0\\x9b"},  // an overlong escape character
      {"\xe2\x82", "\\xe2\\x82"},
  };
  for (const Row& row : table) {
    CAPTURE(row.out);
    CHECK(printable(row.in) == row.out);
  }
  Random random{seed()};
  for (int i = 0; i < 20'000; ++i) {
    const std::string once = printable(random.bytes(40));
    if (printable(once) != once) FAIL("still not printable: " << once);
  }
}

TEST_CASE("quoted text is bounded and truncated between characters") {
  CHECK(quoted("") == "''");
  CHECK(quoted("a\nb") == "'a\\x0ab'");
  CHECK(quoted(std::string(60, 'x')) == "'" + std::string(60, 'x') + "'");
  CHECK(quoted(std::string(61, 'x')) == "'" + std::string(60, 'x') + "'...");
  CHECK(quoted("abc", 2) == "'ab'...");
  CHECK(quoted(std::string(59, 'x') + "\u00e9") == "'" + std::string(59, 'x') + "'...");
  CHECK(quoted(std::string(57, 'x') + "\U0001f512") == "'" + std::string(57, 'x') + "'...");
  CHECK(quoted(std::string(56, 'x') + "\U0001f512z") ==
        "'" + std::string(56, 'x') + "\U0001f512'...");
  CHECK(quoted(std::string(100, '\x80')).size() < 60 * 4 + 6);
}
