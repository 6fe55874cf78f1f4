// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include "redis/named/named_backend.hpp"
#include "redis/wire/locator.hpp"

using namespace dlock;
using namespace dlock::redis;

TEST_CASE("slots as specified by Redis Cluster") {
  CHECK(slot_of("123456789") == 0x31c3 % 16384);
  CHECK(slot_of("{user1000}.following") == slot_of("user1000"));
  CHECK(slot_of("foo{}{bar}") != slot_of("bar"));
  CHECK(slot_of("foo{{bar}}zap") == slot_of("{bar"));
  CHECK(slot_of("foo{bar}{zap}") == slot_of("bar"));
}

TEST_CASE("MOVED names the target") {
  const Endpoint asked{"10.0.0.1", 7000, ""};
  const auto moved = parse_moved("MOVED 3999 127.0.0.1:6381", asked);
  REQUIRE(moved);
  CHECK(moved->slot == 3999);
  CHECK(moved->to == Endpoint{"127.0.0.1", 6381, ""});
  CHECK(parse_moved("MOVED 1 ::1:6381", asked)->to == Endpoint{"::1", 6381, ""});
  CHECK(parse_moved("MOVED 1 :6381", asked)->to == Endpoint{"10.0.0.1", 6381, ""});
  for (const char* text : {"ASK 1 a:1", "MOVED", "MOVED x a:1", "MOVED 16384 a:1", "MOVED 1 a",
                           "MOVED 1 a:0", "MOVED 1 a:65536", "MOVED 1:2 a"})
    CHECK_FALSE(parse_moved(text, asked));
}

TEST_CASE(
    "a lock with a foreign name and its fence share a slot, and each is found from the other") {
  for (const char* name : {"nightly", "app:{user}:x", "a{b", "}x{y}", "{a}{b}"}) {
    CAPTURE(name);
    const NamedKey key{std::string{name}};
    REQUIRE(key.same_slot);
    CHECK(slot_of(key.lock) == slot_of(key.fence));
    CHECK(NamedKey::lock_of(key.fence) == name);
  }
  CHECK_FALSE(NamedKey{std::string{"{}"}}.same_slot);
  const NamedKey odd{std::string{"a}b"}};
  CHECK_FALSE(odd.same_slot);
  CHECK(NamedKey::lock_of(odd.fence) == "a}b");
  CHECK_FALSE(NamedKey::lock_of("dlock:{x}:fence"));
}
