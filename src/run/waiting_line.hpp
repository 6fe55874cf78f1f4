// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "run/event.hpp"
#include "run/output.hpp"

namespace dlock::run {

// Whether the line below is drawn again and again, so that news is wanted each second. If not, it
// comes again after these times.
bool redraws(const Plan&);
inline constexpr Duration said_again[] = {std::chrono::minutes{1}, std::chrono::minutes{10},
                                          std::chrono::hours{1}};

// Reports on stderr that dlock waits, and for which holder: nothing for 500 ms, then one line. On a
// terminal that line is redrawn each second; elsewhere it comes again at 1 min, 10 min and 1 h
// only.
class WaitingLine {
 public:
  WaitingLine(const Plan&, Output&);
  void update(const Waiting&, Deadline now);  // from the keeper, when a line may be due
  void clear();                               // before any other output, or at the end

  // The message at the end of a wait: `busy` with the holder, if the store named it recently (CLI:
  // --op-timeout and a second).
  void answered(event::Answered a);
  // The store is unreachable, or its reply is malformed. Reported once that has lasted for 2 s;
  // again each second on a terminal, elsewhere after 10 min at the earliest.
  void fails(const std::string& why, Deadline now);
  void no_answer(std::string why) { no_answer_ = std::move(why); }
  void ended(bool busy, Deadline now);

 private:
  void show(const std::string& line);
  std::string until_when() const;

  const Plan& plan_;
  Output& output_;
  bool terminal_ = false;
  const Deadline since_;
  Deadline next_;
  // no_deadline: the last report was an answer
  Deadline failing_since_ = no_deadline, next_failing_{};
  int said_ = 0;
  bool drawn_ = false;
  event::Answered answer_{};  // the last one
  std::string no_answer_;
};

}  // namespace dlock::run
