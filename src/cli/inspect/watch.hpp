// SPDX-License-Identifier: Apache-2.0
// inspect --watch: inspect repeated. At a terminal it is redrawn, and q, Escape or Ctrl-C ends it;
// elsewhere a line is written when something has changed.
#pragma once
#include <functional>
#include <string>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock::cli {

struct Frame {
  std::string text;     // to show
  std::string compare;  // changes with events, not merely with time
};

// Runs until the user ends it, or stdout has no reader. `frame` reports errors in its text: it
// always returns something to show.
Result<void> watch(Duration every, bool redraw, const std::function<Frame()>& frame);

}  // namespace dlock::cli
