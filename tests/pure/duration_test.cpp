// SPDX-License-Identifier: Apache-2.0
#include "core/duration.hpp"
#include <catch2/catch.hpp>
#include <limits>
#include "core/text.hpp"
#include "pure/message.hpp"
#include "pure/random.hpp"

using namespace dlock;
using namespace dlock::test;
using Catch::Contains;

namespace {

constexpr std::int64_t ms = 1'000, s = 1'000'000, m = 60 * s, h = 60 * m, d = 24 * h, w = 7 * d;

}  // namespace

TEST_CASE("durations are exact") {
  struct Row {
    std::string text;
    std::int64_t micros;
  };
  const Row table[] = {
      {"0", 0},
      {"0s", 0},
      {"0.000ms", 0},
      {"30", 30 * s},
      {".5", s / 2},
      {"0.5", s / 2},
      {"150us", 150},
      {"1.5us", 2},
      {"2us", 2},
      {"500ms", 500 * ms},
      {"90s", 90 * s},
      {"5m", 5 * m},
      {"1h30m", 90 * m},
      {"1.5h", 90 * m},
      {"2d", 2 * d},
      {"1w", w},
      {"1w2d3h4m5s6ms", w + 2 * d + 3 * h + 4 * m + 5 * s + 6 * ms},
      {"1m.5s", m + s / 2},
      {"007", 7 * s},
      {"0.1s", 100'000},
      {"0.3", 300'000},
      {"4.35s", 4'350'000},
      {"1.0000005s", 1'000'001},  // rounded to nearest
      {"1.0000004s", 1'000'000},
      {"1.00000049999999999999999999s", 1'000'000},
      {"1.0000014999999999999999999999999999999s", 1'000'001},
      {"0.0005ms", 1},
      {"0.0004ms", 1},  // never rounded to zero
      {"0.0000000000000000000000000000000000001w", 1},
      {"0.00000000000000000000000000000000000000", 0},
      {"0.9999999", 1 * s},
      {"0.3333333333333333333333333333333333h", 20 * m},
      {"0.142857142857142857142857142857142857w", d},
      {"36525d", 36525 * d},  // the longest
      {"876600h", 36525 * d},
      {"3155760000", 36525 * d},
      {"0036525d0ms", 36525 * d},
  };
  for (const Row& row : table) {
    CAPTURE(row.text);
    const auto r = parse_duration(row.text);
    REQUIRE(r);
    CHECK(r->count() == row.micros);
  }
  CHECK(parse_duration(std::string(100'000, '0') + "1s").value() == std::chrono::seconds{1});
  CHECK(parse_duration("1." + std::string(100'000, '0') + "1s").value() == std::chrono::seconds{1});
}

TEST_CASE("all other text is refused") {
  for (const std::string& bad :
       {std::string{},          std::string{" "},         std::string{"5 m"},
        std::string{" 5m"},     std::string{"5m "},       std::string{"-1"},
        std::string{"-0"},      std::string{"+1"},        std::string{"1e3"},
        std::string{"1E3"},     std::string{"0x10"},      std::string{"inf"},
        std::string{"nan"},     std::string{"s"},         std::string{"ms"},
        std::string{"."},       std::string{".s"},        std::string{"5."},
        std::string{"5.s"},     std::string{"1..5"},      std::string{"1.2.3"},
        std::string{"5M"},      std::string{"5S"},        std::string{"5H"},
        std::string{"5y"},      std::string{"5min"},      std::string{"5sec"},
        std::string{"1h30"},    std::string{"1h m"},      std::string{"1hm"},
        std::string{"1m-5s"},   std::string{"1,5s"},      std::string{"1_000"},
        std::string{"5\n"},     std::string("5\0", 2),    std::string{"\xd9\xa5"},
        std::string{"forever"}, std::string(100'000, '.')}) {
    CAPTURE(printable(bad.substr(0, 30)));
    const auto r = parse_duration(bad);
    REQUIRE_FALSE(r);
    CHECK(is_good_message(r.error()));
    CHECK_THAT(r.error().message, Contains(quoted(bad)) && Contains("ms, s, m, h, d and w"));
  }
  for (const std::string& bad :
       {std::string{"36525d1ms"}, std::string{"36525.0000001d"}, std::string{"36526d"},
        std::string{"5218w"}, std::string{"3155760001"}, std::string{"18446744073709551616"},
        std::string{"9223372036854775807w"}, std::string{"9223372036854775808ms"},
        std::string(100'000, '9'), std::string(100'000, '9') + "w", std::string{"36525d36525d"}}) {
    CAPTURE(bad.substr(0, 30));
    const auto r = parse_duration(bad);
    REQUIRE_FALSE(r);
    CHECK(is_good_message(r.error()));
    CHECK_THAT(r.error().message, Contains("100 years"));
  }
  std::string many;
  for (int i = 0; i < 50'000; ++i) many += "36525d";
  CHECK_FALSE(parse_duration(many));
}

TEST_CASE("random text is a duration from 0 to 100 years or an error") {
  Random random{seed()};
  static constexpr std::string_view letters = "0123456789.0123456789.mshdw -";
  std::size_t good = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text = random.one_in(4) ? random.bytes(30) : std::string(random.below(12), '\0');
    if (text.find_first_not_of('\0') == text.npos)
      for (char& c : text) c = letters[random.below(letters.size())];
    const auto r = parse_duration(text);
    if (r ? r->count() < 0 || r->count() > 36525 * d : !is_good_message(r.error()))
      FAIL(printable(text));
    good += r.has_value();
  }
  CHECK(good > 1000);
}

TEST_CASE("microseconds written with six decimals parse to the same value") {
  Random random{seed()};
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t micros = static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(36525 * d)) >> random.below(50));
    std::string text = std::to_string(micros % s);
    text = std::to_string(micros / s) + "." + std::string(6 - text.size(), '0') + text;
    const auto r = parse_duration(text);
    if (!r || r->count() != micros) FAIL(text);
  }
}

TEST_CASE("formatted durations") {
  struct Row {
    std::int64_t micros;
    std::string text;
  };
  const Row table[] = {
      {0, "0s"},
      {1, "1us"},
      {999, "999us"},
      {1000, "1ms"},
      {480'999, "480ms"},
      {999'999, "999ms"},
      {s, "1s"},
      {1'500'000, "1.5s"},
      {1'599'999, "1.5s"},
      {m - 1, "59.9s"},
      {m, "1m"},
      {31 * m + 4 * s, "31m04s"},
      {h - 1, "59m59s"},
      {h, "1h"},
      {2 * h + 5 * m, "2h05m"},
      {d - 1, "23h59m"},
      {d, "1d"},
      {3 * d + 4 * h, "3d04h"},
      {1000 * d - 1, "999d23h"},
      {36525 * d, "36525d"},
      {-1'500'000, "-1.5s"},
      {std::numeric_limits<std::int64_t>::max(), "106751991d04h"},
      {std::numeric_limits<std::int64_t>::min(), "-106751991d04h"},
  };
  for (const Row& row : table) CHECK(format_duration(Duration{row.micros}) == row.text);

  Random random{seed()};
  for (int i = 0; i < 20'000; ++i) {
    const Duration value{static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(1000 * d)) >> random.below(50))};
    const std::string text = format_duration(value);
    if (text.size() > 8) FAIL(text);
    // dlock parses what it prints, and never as a longer duration
    const auto back = parse_duration(text);
    if (!back || *back > value) FAIL(text);
  }
}

TEST_CASE(
    "durations rounded up: never less when they are typed, by less than one of the last part") {
  for (const auto& [value, text] : {std::pair{Duration{0}, "0s"},
                                    {Duration{1}, "1ms"},
                                    {Duration{s + 1}, "1.1s"},
                                    {Duration{m - 1}, "1m"},
                                    {Duration{m + 400 * ms}, "1m01s"},
                                    {Duration{h + 30 * s}, "1h01m"},
                                    {Duration{d - 1}, "1d"},
                                    {Duration{d + 1}, "1d01h"}})
    CHECK(format_duration_up(value) == text);
  Random random{seed()};
  for (int i = 0; i < 20'000; ++i) {
    const Duration value{static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(1000 * d)) >> random.below(50))};
    const auto back = parse_duration(format_duration_up(value));
    if (!back || *back < value || format_duration_up(*back) != format_duration_up(value))
      FAIL(value.count());
  }
}
