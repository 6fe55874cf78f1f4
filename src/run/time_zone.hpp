// SPDX-License-Identifier: Apache-2.0
// The time zone in which the calendar periods of --once-per are counted: that of localtime(3).
#pragma once
#include <string>
#include "core/error.hpp"

namespace dlock::run {

// Whether localtime(3) understands TZ. Where it does not, it counts in UTC and reports nothing.
// Errc::config: TZ is neither a POSIX string nor the name of a readable zone file.
Result<void> check_time_zone();

// "Asia/Tokyo", by TZ; without TZ the abbreviation of the host's zone, "CET".
std::string time_zone_name();

}  // namespace dlock::run
