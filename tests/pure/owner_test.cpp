// SPDX-License-Identifier: Apache-2.0
#include "core/owner.hpp"
#include <catch2/catch.hpp>
#include <set>
#include "pure/random.hpp"

using namespace dlock;

TEST_CASE("an owner is 32 lower-case hex digits and is parsed from them") {
  const std::string hex = "000102030405060708090a0b0c0d0eff";
  const auto owner = Owner::parse(hex);
  REQUIRE(owner);
  CHECK(owner->bytes[1] == 1);
  CHECK(owner->bytes[15] == 0xff);
  CHECK(owner->hex() == hex);

  for (const std::string bad :
       {"", "00", "000102030405060708090a0b0c0d0ef", "000102030405060708090a0b0c0d0eff0",
        "000102030405060708090A0B0C0D0EFF", "000102030405060708090a0b0c0d0e-1",
        "000102030405060708090a0b0c0d0e g", "0x0102030405060708090a0b0c0d0eff"}) {
    CAPTURE(bad);
    CHECK_FALSE(Owner::parse(bad));
  }
  CHECK_FALSE(Owner::parse(std::string_view("000102030405060708090a0b0c0d0e\0f", 32)));
}

TEST_CASE("owners are random in every bit") {
  std::set<Owner> seen;
  std::array<std::uint8_t, 16> ones{}, zeros{};
  for (int i = 0; i < 1000; ++i) {
    const Owner owner = Owner::random();
    seen.insert(owner);
    for (std::size_t b = 0; b < 16; ++b) {
      ones[b] = static_cast<std::uint8_t>(ones[b] | owner.bytes[b]);
      zeros[b] = static_cast<std::uint8_t>(zeros[b] | ~owner.bytes[b]);
    }
    if (Owner::parse(owner.hex()) != owner) FAIL("lost: " << owner.hex());
  }
  CHECK(seen.size() == 1000);
  for (std::size_t b = 0; b < 16; ++b) CHECK((ones[b] == 0xff && zeros[b] == 0xff));
}
