// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include "redis/fair/fair_record.hpp"

using namespace dlock;
using namespace dlock::redis;

TEST_CASE("all keys of a lock share their hash tag") {
  for (const char* text : {"plain", "a}b{c", "{}", "...", "\xc3\xbc"}) {
    const FairKeys keys{"dlock:", Key::parse(text).value()};
    const std::string tag = "{" + keys.name() + "}";
    for (const auto& key : keys.all()) {
      INFO(key);
      CHECK(key.find('{') == key.find(tag));
      CHECK(key.find('}') == key.find(tag) + tag.size() - 1);
      CHECK(FairKeys::name_in(key, "dlock:") == keys.name());
    }
    CHECK(FairKeys::key_text(keys.name(), "17") == text);
    CHECK(keys.record_suffix().empty());
  }
}

TEST_CASE("the key of a shortened name is only in its record") {
  const std::string text(190, '/');
  const FairKeys keys{"", Key::parse(text).value()};
  CHECK(keys.name().size() < 200);
  CHECK(FairKeys::key_text(keys.name(), "17" + keys.record_suffix()) == text);
  CHECK(FairKeys::key_text(keys.name(), "17") == keys.name());
}

TEST_CASE("foreign keys below the prefix are not taken for dlock's") {
  for (const char* found :
       {"dlock:x", "dlock:{}:fence", "dlock:{x", "dlock:x}:y", "other:{x}:fence", ""})
    CHECK_FALSE(FairKeys::name_in(found, "dlock:"));
  CHECK(FairKeys::pattern("a*b[c]?\\") == "a\\*b\\[c\\]\\?\\\\{*}:*");
}
