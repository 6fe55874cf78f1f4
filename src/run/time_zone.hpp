// SPDX-License-Identifier: Apache-2.0
// The time zone for the calendar periods of --once-per, which is the zone of localtime(3). The
// functions read TZ and zone files. Call them while no other thread changes the environment.
#pragma once
#include <string>
#include "core/error.hpp"

namespace dlock::run {

// Checks that localtime(3) understands TZ: otherwise it would silently use UTC. Errc::config: TZ is
// neither a POSIX string nor the name of a readable zone file.
Result<void> check_time_zone();

// Returns the name in TZ, such as "Asia/Tokyo". Without TZ it returns the abbreviation of the
// host's zone, such as "CET".
std::string time_zone_name();

}  // namespace dlock::run
