// SPDX-License-Identifier: Apache-2.0
#include "run/time_zone.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include "core/number.hpp"
#include "core/text.hpp"
#include "util/fd.hpp"

namespace dlock::run {
namespace {

bool is_zone_file(std::string_view name) {
  const char* directory = std::getenv("TZDIR");
  if (!directory || !*directory) directory = "/usr/share/zoneinfo";
  const std::string path =
      name.starts_with('/') ? std::string(name) : fmt::format("{}/{}", directory, name);
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  char begin[4];
  return file && ::read(file.get(), begin, sizeof begin) == sizeof begin &&
         std::string_view(begin, sizeof begin) == "TZif";
}

// A POSIX TZ, such as "CET-1CEST,M3.5.0,M10.5.0/3". Its names may be in angle brackets, as in RFC
// 8536.
class PosixZone {
 public:
  explicit PosixZone(std::string_view text) : rest_(text) {}
  bool valid() {
    if (!name() || !time(24)) return false;
    if (rest_.empty()) return true;
    if (!name()) return false;
    if (!rest_.empty() && rest_[0] != ',' && !time(24)) return false;
    return rest_.empty() || (rule() && rule() && rest_.empty());
  }

 private:
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  template <class Wanted>
  std::string_view run_of(Wanted wanted) {
    const auto end = std::ranges::find_if_not(rest_, wanted);
    const std::string_view found(rest_.begin(), end);
    rest_.remove_prefix(found.size());
    return found;
  }
  bool number(unsigned most) {
    const auto value = parse_number<unsigned>(run_of(is_digit));
    return value && *value <= most;
  }
  bool name() {
    if (!take('<')) return run_of(is_letter).size() >= 3;
    const auto in_brackets = [](char c) {
      return is_letter(c) || is_digit(c) || c == '+' || c == '-';
    };
    return run_of(in_brackets).size() >= 3 && take('>');
  }
  bool time(unsigned hours) {
    if (!take('+')) (void)take('-');
    return number(hours) && (!take(':') || (number(59) && (!take(':') || number(59))));
  }
  bool rule() {
    if (!take(',')) return false;
    const bool day = take('M') ? number(12) && take('.') && number(5) && take('.') && number(6)
                               : (take('J'), number(365));
    return day && (!take('/') || time(167));
  }

  std::string_view rest_;
};

// Returns TZ without a leading colon; empty if it is not set.
std::string_view given() {
  const char* tz = std::getenv("TZ");
  std::string_view text = tz ? tz : "";
  if (text.starts_with(':')) text.remove_prefix(1);
  return text;
}

}  // namespace

Result<void> check_time_zone() {
  const std::string_view zone = given();
  // localtime(3) uses UTC for an unknown zone. For these names UTC is right, and container images
  // without tzdata use these names.
  constexpr std::string_view utc[] = {"", "UTC", "GMT", "Etc/UTC", "Etc/GMT"};
  if (std::ranges::find(utc, zone) != std::end(utc)) return {};
  if (is_zone_file(zone) || PosixZone(zone).valid()) return {};
  return fail(Errc::config,
              "TZ: {} is neither a zone file (is tzdata installed?) nor a string of "
              "POSIX such as CET-1CEST",
              quoted(zone));
}

std::string time_zone_name() {
  if (const std::string_view zone = given(); !zone.empty() && check_time_zone())
    return printable(zone);
  const std::time_t now = std::time(nullptr);
  std::tm t{};
  ::tzset();
  ::localtime_r(&now, &t);
  return given().empty() ? t.tm_zone : "UTC";
}

}  // namespace dlock::run
