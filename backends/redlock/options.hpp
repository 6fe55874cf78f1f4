// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "redis/wire/options.hpp"

namespace dlock::redlock {

struct Options : redis::Options {  // `servers`: all the masters
  bool list_change = false;        // the masters of a key may differ from before
};

// Errc::usage names the item, its value and what is allowed.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

}  // namespace dlock::redlock
