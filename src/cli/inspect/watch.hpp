// SPDX-License-Identifier: Apache-2.0
// inspect --watch: repeats inspect. At a terminal it redraws the output, and q, Escape or Ctrl-C
// ends it. Elsewhere it writes a line when something has changed.
#pragma once
#include <functional>
#include <string>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock::cli {

struct Frame {
  std::string text;     // to show
  std::string compare;  // only what changes by events, not what changes with time alone
};

// Runs until the user ends it or the reader of stdout has left. `frame` always returns something to
// show; errors are part of its text.
Result<void> watch(Duration every, bool redraw, const std::function<Frame()>& frame);

}  // namespace dlock::cli
