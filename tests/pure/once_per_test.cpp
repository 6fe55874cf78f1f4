// SPDX-License-Identifier: Apache-2.0
#include "run/once_per.hpp"
#include <catch2/catch.hpp>
#include <cstdlib>
#include <ctime>
#include "run/time_zone.hpp"

using namespace dlock;
using namespace std::chrono_literals;
using run::OncePer;

namespace {

constexpr std::int64_t second = 1'000'000;

OncePer per(const char* text) { return OncePer::parse(text).value(); }

// "2025-03-30 01:30:00" UTC
std::int64_t utc(const char* text) {
  std::tm t{};
  REQUIRE(::strptime(text, "%Y-%m-%d %H:%M:%S", &t));
  return std::int64_t{::timegm(&t)} * second;
}

bool due(const char* period, const char* last, const char* now) {
  return per(period).due({utc(now), RunStart{utc(last)}});
}

struct Zone {
  explicit Zone(const char* name) {
    ::setenv("TZ", name, 1);
    ::tzset();
  }
  ~Zone() {
    ::unsetenv("TZ");
    ::tzset();
  }
};

}  // namespace

TEST_CASE("a first start is due") { CHECK(per("1h").due({5 * second, std::nullopt})); }

TEST_CASE("a duration: no start within it, less a slack of a tenth (at most a minute)") {
  const auto at = [](const char* period, std::int64_t micros) {
    return per(period).due({1'000'000 * second + micros, RunStart{1'000'000 * second}});
  };
  CHECK_FALSE(at("1s", 0));
  CHECK_FALSE(at("1s", 899'999));
  CHECK(at("1s", 900'000));
  CHECK_FALSE(at("1d", (86400 - 60) * second - 1));
  CHECK(at("1d", (86400 - 60) * second));
}

TEST_CASE(
    "a last start in the future: the clock was set back; no start, and the message says how far") {
  CHECK_FALSE(per("1s").due({10 * second, RunStart{11 * second}}));
  CHECK_FALSE(per("1s").due({10 * second, RunStart{10 * second + 1}}));
  CHECK(OncePer::ahead({10 * second, RunStart{11 * second}}) == 1s);
  CHECK(OncePer::ahead({10 * second, RunStart{10 * second}}) == 0s);
  CHECK(OncePer::ahead({10 * second, std::nullopt}) == 0s);
  CHECK_FALSE(due("day", "2025-06-02 00:00:00", "2025-06-01 12:00:00"));
}

TEST_CASE("calendar periods end at their boundaries, in the zone of TZ") {
  const Zone zone("UTC");
  CHECK_FALSE(due("hour", "2025-06-01 12:00:00", "2025-06-01 12:59:59"));
  CHECK(due("hour", "2025-06-01 12:59:59", "2025-06-01 13:00:00"));
  CHECK(due("hour", "2025-06-01 12:30:00", "2025-06-02 12:30:00"));
  CHECK_FALSE(due("day", "2025-06-01 00:00:00", "2025-06-01 23:59:59"));
  CHECK(due("day", "2025-06-01 23:59:59", "2025-06-02 00:00:00"));
  CHECK_FALSE(due("month", "2025-06-01 00:00:00", "2025-06-30 23:59:59"));
  CHECK(due("month", "2025-06-30 23:59:59", "2025-07-01 00:00:00"));
  CHECK(due("month", "2024-06-10 00:00:00", "2025-06-10 00:00:00"));
}

TEST_CASE("a week begins on Monday, also over the end of a year") {
  const Zone zone("UTC");
  CHECK_FALSE(due("week", "2025-06-02 00:00:00", "2025-06-08 23:59:59"));  // Monday to Sunday
  CHECK(due("week", "2025-06-08 23:59:59", "2025-06-09 00:00:00"));
  CHECK_FALSE(due("week", "2024-12-30 10:00:00", "2025-01-05 10:00:00"));
  CHECK(due("week", "2024-12-30 10:00:00", "2025-01-06 10:00:00"));
}

TEST_CASE("the day is that of TZ, and the repeated hour of a DST change counts as two hours") {
  const Zone zone("CET-1CEST,M3.5.0,M10.5.0/3");                    // as Europe/Berlin
  CHECK(due("day", "2025-06-01 21:59:59", "2025-06-01 22:00:00"));  // midnight there
  CHECK_FALSE(due("day", "2025-06-01 22:00:00", "2025-06-02 21:59:59"));
  CHECK(due("hour", "2025-10-26 00:30:00", "2025-10-26 01:30:00"));  // 02:30 CEST, 02:30 CET
  CHECK(due("hour", "2025-03-30 00:59:59", "2025-03-30 01:00:00"));  // 01:59 CET, 03:00 CEST
}

TEST_CASE("the record is kept at least as long as it is needed") {
  CHECK(per("500ms").retention() == 500ms);
  CHECK(per("day").retention() >= 25h);
  CHECK(per("week").retention() >= 7 * 24h + 1h);
  CHECK(per("month").retention() >= 31 * 24h + 1h);
}

TEST_CASE("invalid periods") {
  for (const char* bad : {"", "0", "-1", "days", "Hour", "5 m", "fortnight"})
    CHECK_FALSE(OncePer::parse(bad));
  CHECK(per("90s").text() == "1m30s");
  CHECK(per("month").text() == "month");
}

TEST_CASE("when the next calendar period begins") {
  ::setenv("TZ", "UTC", 1);
  using C = OncePer::Calendar;
  constexpr std::int64_t second = 1'000'000,
                         at = 1'700'000'000 * second;  // Tue 2023-11-14 22:13:20
  const auto next = [&](C c) { return OncePer{c, {}}.next_after(at + 5) / second; };
  CHECK(next(C::hour) == 1'700'002'800);   // 23:00
  CHECK(next(C::day) == 1'700'006'400);    // 2023-11-15
  CHECK(next(C::week) == 1'700'438'400);   // Monday 2023-11-20
  CHECK(next(C::month) == 1'701'388'800);  // 2023-12-01
}

TEST_CASE("the next period begins where a start is due, also where clocks change at midnight") {
  // As Beirut (no 00:00 in spring), Havana (two in autumn), Lord Howe (a change of half an hour).
  for (const char* name : {"UTC", "EET-2EEST,M3.5.0/0,M10.5.0/0", "CST5CDT,M3.2.0/0,M11.1.0/1",
                           "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"}) {
    const Zone zone(name);
    for (const char* period : {"hour", "day", "week", "month"})
      for (std::int64_t at = utc("2025-01-01 00:10:00"); at < utc("2026-01-01 00:00:00");
           at += 1800 * second) {
        const OncePer once = per(period);
        const std::int64_t begins = once.next_after(at);
        if (once.due({begins - second, RunStart{at}}) || !once.due({begins, RunStart{at}}))
          FAIL(name << ": the " << period << " after " << at << " begins at " << begins);
      }
  }
}

TEST_CASE("a time zone that localtime(3) does not understand is an error, not UTC") {
  for (const char* good :
       {"", ":", "UTC", "GMT", "Etc/UTC", "CET-1", "CET-1CEST", "EST5EDT,M3.2.0,M11.1.0/1",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "IST-2IDT,M3.4.4/26,M10.5.0",
        "AAA0:00:01BBB,J60,300", ":CET-1CEST", "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1"}) {
    CAPTURE(good);
    const Zone zone(good);
    CHECK(run::check_time_zone());
  }
  for (const char* bad :
       {"Mars/Olympus", "/etc/passwd", "/nowhere", "CE-1", "ABC", "CET-25", "CET-1:60",
        "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,,", "<CE>-1", "<CET-1",
        "CET-1CEST,M3.5.0,M10.5.0/168", "CET-1CEST,M3.5.0,M10.5.0 ", "5", "../../../etc"}) {
    CAPTURE(bad);
    const Zone zone(bad);
    const auto judged = run::check_time_zone();
    REQUIRE_FALSE(judged);
    CHECK(judged.error().code == Errc::config);
    CHECK(judged.error().message.starts_with("TZ: '"));
    CHECK(run::time_zone_name() == "UTC");
  }
  const Zone zone("CET-1CEST");
  CHECK(per("day").described() == "day, time zone CET-1CEST");
  CHECK(per("1h").described() == "1h");
}
