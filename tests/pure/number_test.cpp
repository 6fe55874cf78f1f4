// SPDX-License-Identifier: Apache-2.0
#include "core/number.hpp"
#include <catch2/catch.hpp>
#include <cstdint>

using namespace dlock;

TEST_CASE("a number must be the whole text, and fit") {
  CHECK(parse_number<int>("42") == 42);
  CHECK(parse_number<int>("-42") == -42);
  CHECK(parse_number<std::uint64_t>("18446744073709551615") == UINT64_MAX);
  CHECK(parse_number<std::uint16_t>("ff", 16) == 255);
  CHECK(parse_number<double>("1.5") == 1.5);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1", "1.0", "-"})
    CHECK(!parse_number<int>(text));
  CHECK(!parse_number<std::uint64_t>("18446744073709551616"));
  CHECK(!parse_number<unsigned>("-1"));
  CHECK(!parse_number<double>("1e3"));
}

TEST_CASE("leading_number takes the number at the beginning, or nothing") {
  std::string_view rest = "12 x";
  CHECK(leading_number<int>(rest) == 12);
  CHECK(rest == " x");
  CHECK(!leading_number<int>(rest));
  CHECK(rest == " x");
  rest = "300;";
  CHECK(!leading_number<std::uint8_t>(rest));
  CHECK(rest == "300;");
}
