// SPDX-License-Identifier: Apache-2.0
// --once-per: at most one start per period. A pure value: the time comes from the store's clock
// (Backend::starts), and only the calendar periods read the time zone.
#pragma once
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "store/backend.hpp"

namespace dlock::run {

struct OncePer {
  enum class Calendar { none, hour, day, week, month } calendar = Calendar::none;
  Duration period{};  // only for Calendar::none

  // Accepts a duration above 0, or `hour`, `day`, `week`, `month`. Everything else is Errc::usage.
  static Result<OncePer> parse(std::string_view text);
  std::string text() const;
  // For people: "day, time zone Asia/Tokyo".
  std::string described() const;

  // Returns whether a job may start now. With a duration, it may if the last start was at least
  // that duration ago, minus a slack of min(period/10, 1 min). With a calendar, it may if the last
  // start was in another hour, day, week (from Monday) or month, in the time zone of TZ. False if
  // the last start is in the future: see ahead().
  bool due(const RunStarts&) const;

  // Returns how far the last start is in the future, or 0. If the result is above 0, the store's
  // clock was ahead when the start was recorded. The caller should set such a record to now. Then
  // the record blocks other starts for one whole period. Otherwise it would block them until the
  // wall clock reaches the recorded time.
  static Duration ahead(const RunStarts& s) noexcept {
    return Duration{s.last && s.last->at > s.now ? s.last->at - s.now : 0};
  }

  // With a calendar: returns when the next period after `wall_micros` begins, in the time zone of
  // TZ, in microseconds since 1970.
  std::int64_t next_after(std::int64_t wall_micros) const;

  Duration retention() const;  // how long the record of a start is needed
};

}  // namespace dlock::run
