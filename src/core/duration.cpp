// SPDX-License-Identifier: Apache-2.0
#include "core/duration.hpp"
#include <fmt/format.h>
#include <array>
#include "core/text.hpp"

namespace dlock {
namespace {

constexpr std::int64_t millisecond = 1'000, second = 1'000'000;
constexpr std::int64_t minute = 60 * second, hour = 60 * minute, day = 24 * hour, week = 7 * day;
constexpr std::int64_t longest = 36525 * day;  // 100 years

struct Unit {
  std::string_view name;
  std::int64_t micros;
};
// The first match counts, so "ms" must come before "m".
constexpr std::array<Unit, 7> units{{{"us", 1},
                                     {"ms", millisecond},
                                     {"s", second},
                                     {"m", minute},
                                     {"h", hour},
                                     {"d", day},
                                     {"w", week}}};

std::string_view take_digits(std::string_view& text) noexcept {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  text.remove_prefix(digits.size());
  return digits;
}

// Returns whole.fraction * unit in microseconds, computed in integers. If that is more than
// `longest`, returns some number above `longest`.
std::int64_t times(std::string_view whole, std::string_view fraction, std::int64_t unit) noexcept {
  std::int64_t count = 0;
  for (const char c : whole) {
    count = count * 10 + (c - '0');
    if (count > longest / unit) return longest + 1;
  }
  // Multiplies digit by digit, last digit first. After each step `part` contains the whole
  // microseconds of the digits so far, and `first` is the decimal digit after them. Only `first`
  // decides whether the result is rounded up.
  std::int64_t part = 0, first = 0;
  bool something = false;
  for (std::size_t i = fraction.size(); i > 0; --i) {
    const std::int64_t sum = (fraction[i - 1] - '0') * unit + part;
    part = sum / 10;
    first = sum % 10;
    something |= fraction[i - 1] != '0';
  }
  const std::int64_t micros = count * unit + part + (first >= 5 ? 1 : 0);
  return micros == 0 && something ? 1 : micros;
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  const auto bad = [&] {
    return fail(Errc::usage,
                "{} is not a duration; allowed are a number of seconds or numbers with the "
                "units us, ms, s, m, h, d and w, without spaces: 30, 500ms, 1.5h, 1h30m",
                quoted(text));
  };
  if (text.empty()) return bad();
  std::int64_t total = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const bool first = rest.size() == text.size();
    const std::string_view whole = take_digits(rest);
    std::string_view fraction;
    if (!rest.empty() && rest.front() == '.') {
      rest.remove_prefix(1);
      fraction = take_digits(rest);
      if (fraction.empty()) return bad();
    }
    if (whole.empty() && fraction.empty()) return bad();
    Unit unit{"", second};
    if (!rest.empty() || !first) {  // only a single number may have no unit
      unit.name = {};
      for (const Unit& u : units) {
        if (!rest.starts_with(u.name)) continue;
        unit = u;
        break;
      }
      if (unit.name.empty()) return bad();
    }
    rest.remove_prefix(unit.name.size());
    total += times(whole, fraction, unit.micros);
    if (total > longest)
      return fail(Errc::usage, "{} is too long a duration; at most 100 years (36525d)",
                  quoted(text));
  }
  return Duration{total};
}

std::string format_duration(Duration d) {
  const std::int64_t micros = d.count();
  if (micros < 0) return "-" + format_duration(Duration{micros == INT64_MIN ? INT64_MAX : -micros});
  if (micros == 0) return "0s";
  if (micros < millisecond) return fmt::format("{}us", micros);
  if (micros < second) return fmt::format("{}ms", micros / millisecond);
  const auto two = [&](std::int64_t large, std::string_view name, std::int64_t small,
                       std::string_view small_name) {
    const std::int64_t rest = micros % large / small;
    return rest == 0 ? fmt::format("{}{}", micros / large, name)
                     : fmt::format("{}{}{:02}{}", micros / large, name, rest, small_name);
  };
  if (micros < minute) {
    const std::int64_t tenths = micros % second / (second / 10);
    return tenths == 0 ? fmt::format("{}s", micros / second)
                       : fmt::format("{}.{}s", micros / second, tenths);
  }
  if (micros < hour) return two(minute, "m", second, "s");
  if (micros < day) return two(hour, "h", minute, "m");
  return two(day, "d", hour, "h");
}

std::string format_duration_up(Duration d) {
  const std::int64_t micros = d.count();
  const std::int64_t step = micros < second   ? millisecond
                            : micros < minute ? second / 10
                            : micros < hour   ? second
                            : micros < day    ? minute
                                              : hour;
  return format_duration(Duration{(micros + step - 1) / step * step});
}

}  // namespace dlock
