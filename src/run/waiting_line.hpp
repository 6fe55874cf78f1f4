// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include "run/events.hpp"

namespace dlock::run {

// Says on stderr that we wait, and for whom: nothing for 500 ms, then one line. On a terminal that line is redrawn each
// second; elsewhere it comes again at 1 min, 10 min and 1 h only.
class WaitingLine {
 public:
  WaitingLine(const Plan&, Events&);
  void update(const Waiting&, Deadline now);  // from the keeper, about once a second
  void clear();                               // before anything else is said, or done

 private:
  const Plan& plan_;
  Events& events_;
  bool terminal_ = false;
  const Deadline since_;
  Deadline next_;
  int said_ = 0;
  bool drawn_ = false;
};

}  // namespace dlock::run
