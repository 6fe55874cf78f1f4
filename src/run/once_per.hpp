// SPDX-License-Identifier: Apache-2.0
// --once-per: at most one start per period. Pure; the clock is the store's (Backend::starts).
#pragma once
#include <string>
#include <string_view>
#include "core/backend.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock::run {

struct OncePer {
  enum class Calendar { none, hour, day, week, month } calendar = Calendar::none;
  Duration period{};  // calendar none

  // A duration above 0, or hour, day, week, month. Errc::usage.
  static Result<OncePer> parse(std::string_view text);
  std::string text() const;

  // May a job start now? A duration: not when the last start lies less than it minus a slack of min(period/10, 1 min) back. Calendar:
  // not within the hour, day, week (from Monday) or month of the last start, in the time zone of TZ. A last start in the future
  // (the store's clock was set back) is a start of this period.
  bool due(const Starts&) const;

  Duration keep() const;  // after which a record of a start is of no more use
};

}  // namespace dlock::run
