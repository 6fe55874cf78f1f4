// SPDX-License-Identifier: Apache-2.0
// inspect --watch: the same look again and again. At a terminal it is redrawn, and q, Escape or Ctrl-C ends it; elsewhere a line is written when
// something has changed.
#pragma once
#include <functional>
#include <string>
#include "core/clock.hpp"
#include "core/error.hpp"

namespace dlock::cli {

struct Look {
  std::string text;     // to show
  std::string compare;  // changes when something has happened, not merely because time goes by
};

// Until the user ends it, or the reader of stdout has gone. Errors are `look`'s to show: it has always something to say.
Result<void> watch(Duration every, bool redraw, const std::function<Look()>& look);

bool terminal_on_stdout();

}  // namespace dlock::cli
