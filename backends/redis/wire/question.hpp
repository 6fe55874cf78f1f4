// SPDX-License-Identifier: Apache-2.0
// Questions to several servers at once, so that a silent one delays none of the others.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include "redis/wire/line.hpp"

namespace dlock::redis {

// A question to one server, over a line that stays open for the next time.
class Question {
 public:
  Question(Line::Shared shared, const Endpoint& at, Line::Greeting greeting)
      : line_(shared, at, greeting) {}
  virtual ~Question() = default;

  const Endpoint& at() const noexcept { return line_.at(); }
  void begin(Deadline until);
  void go_on();  // takes what has arrived
  bool under_way() const noexcept { return until_ && !outcome_; }
  bool over() const noexcept { return outcome_.has_value(); }
  // when it is over; an error names the server
  const Result<void>& outcome() const noexcept { return *outcome_; }
  void end();  // nothing more will be read from it
  Line& line() noexcept { return line_; }

 protected:
  virtual Result<void> ask() = 0;  // sends the first commands
  // Takes the next reply, and may send more. True: that was all.
  virtual Result<bool> understand(Reply) = 0;

  Line line_;

 private:
  Result<bool> step(Deadline now);

  bool answered_ = false;          // over this line
  bool asked_ = false;             // this time
  std::optional<Deadline> until_;  // begun
  std::optional<Result<void>> outcome_;
};

// Goes on with those that have begun until `decided` (called whenever one is over), all are over,
// or the wait is. `next` begins one more and returns whether there are others: called at the start,
// whenever one is over, and whenever `stagger` has passed since.
void ask_all(std::span<Question* const>, Wait, Duration stagger, const std::function<bool()>& next,
             const std::function<bool()>& decided);

}  // namespace dlock::redis
