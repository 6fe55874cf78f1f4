// SPDX-License-Identifier: Apache-2.0
#include "run/once_per.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <ctime>
#include "core/duration.hpp"
#include "core/text.hpp"
#include "run/time_zone.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

constexpr std::string_view names[] = {"", "hour", "day", "week", "month"};

std::tm local(std::int64_t wall_micros) {
  const std::time_t seconds = wall_micros / 1'000'000;
  std::tm t{};
  ::localtime_r(&seconds, &t);
  return t;
}

bool same(const std::tm& a, const std::tm& b, OncePer::Calendar unit) {
  const bool month = a.tm_year == b.tm_year && a.tm_mon == b.tm_mon,
             day = month && a.tm_mday == b.tm_mday;
  switch (unit) {
    case OncePer::Calendar::none: return false;
    // The repeated hour at the end of summer time counts as two hours.
    case OncePer::Calendar::hour:
      return day && a.tm_hour == b.tm_hour && a.tm_gmtoff == b.tm_gmtoff;
    case OncePer::Calendar::day: return day;
    case OncePer::Calendar::month: return month;
    case OncePer::Calendar::week: break;
  }
  // ISO 8601: compare the number of the week and its year. A week belongs to the year of its
  // Thursday.
  char x[16], y[16];
  std::strftime(x, sizeof x, "%G %V", &a);
  std::strftime(y, sizeof y, "%G %V", &b);
  return std::string_view(x) == y;
}

}  // namespace

Result<OncePer> OncePer::parse(std::string_view text) {
  for (std::size_t i = 1; i < std::size(names); ++i)
    if (text == names[i]) return OncePer{static_cast<Calendar>(i), {}};
  const auto d = parse_duration(text);
  if (d && *d > 0us) return OncePer{Calendar::none, *d};
  return fail(
      Errc::usage,
      "{} is neither a duration longer than 0 (30s, 5m, 1h30m) nor hour, day, week or month",
      quoted(text));
}

std::string OncePer::text() const {
  return calendar == Calendar::none ? format_duration(period)
                                    : std::string(names[static_cast<std::size_t>(calendar)]);
}

std::string OncePer::described() const {
  return calendar == Calendar::none ? text()
                                    : fmt::format("{}, time zone {}", text(), time_zone_name());
}

bool OncePer::due(const RunStarts& s) const {
  if (!s.last) return true;
  if (ahead(s) > 0us) return false;
  if (calendar != Calendar::none) {
    ::tzset();
    return !same(local(s.last->at), local(s.now), calendar);
  }
  const Duration slack = std::min<Duration>(period / 10, 1min);
  return Duration{s.now - s.last->at} >= period - slack;
}

std::int64_t OncePer::next_after(std::int64_t wall_micros) const {
  ::tzset();
  std::tm t = local(wall_micros);
  if (calendar == Calendar::hour) {  // mktime cannot do this, because the hour may be repeated
    const std::int64_t into = (std::int64_t{t.tm_min} * 60 + t.tm_sec) * 1'000'000;
    return wall_micros - wall_micros % 1'000'000 - into + 3'600'000'000;
  }
  t.tm_sec = t.tm_min = t.tm_hour = 0;
  t.tm_isdst = -1;
  if (calendar == Calendar::day) ++t.tm_mday;
  if (calendar == Calendar::week) t.tm_mday += 7 - (t.tm_wday + 6) % 7;
  if (calendar == Calendar::month) {
    t.tm_mday = 1;
    ++t.tm_mon;
  }
  return std::int64_t{std::mktime(&t)} * 1'000'000;
}

Duration OncePer::retention() const {
  constexpr Duration longest[] = {0h, 2h, 26h, 7 * 24h + 2h, 31 * 24h + 2h};
  return calendar == Calendar::none ? period : longest[static_cast<std::size_t>(calendar)];
}

}  // namespace dlock::run
