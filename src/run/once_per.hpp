// SPDX-License-Identifier: Apache-2.0
// --once-per: at most one start per period. Pure; the clock is the store's (Backend::starts).
#pragma once
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "store/backend.hpp"

namespace dlock::run {

struct OncePer {
  enum class Calendar { none, hour, day, week, month } calendar = Calendar::none;
  Duration period{};  // calendar none

  // A duration above 0, or hour, day, week, month. Errc::usage.
  static Result<OncePer> parse(std::string_view text);
  std::string text() const;
  // For people: "day, time zone Asia/Tokyo".
  std::string described() const;

  // May a job start now? A duration: not if the last start was less than the duration minus a slack
  // of min(period/10, 1 min) ago. Calendar: not within the hour, day, week (from Monday) or month
  // of the last start, in the time zone of TZ. Not if the last start is in the future: see ahead().
  bool due(const Starts&) const;

  // How far the last start is in the future, else 0. The store's clock was ahead when it was noted,
  // so the job was started some time before now. Such a record should be set to now: then it keeps
  // the next start a whole period away from the real one, whenever that was, and blocks for one
  // period, not until the wall clock reaches it.
  static Duration ahead(const Starts& s) noexcept {
    return Duration{s.last && s.last->at > s.now ? s.last->at - s.now : 0};
  }

  // Calendar: when the period after that of `wall_micros` begins, in the time zone of TZ;
  // microseconds since 1970.
  std::int64_t next_after(std::int64_t wall_micros) const;

  Duration retention() const;  // after which the record of a start is not needed
};

}  // namespace dlock::run
