// SPDX-License-Identifier: Apache-2.0
// Questions to several servers at once, so that a silent one delays none of the others.
#pragma once
#include <functional>
#include "redis/wire/line.hpp"

namespace dlock::redis {

// A question to one server, over a line that stays open for the next time.
class Question {
 public:
  Question(Line::Shared shared, const Endpoint& at, Line::Greeting greeting)
      : options_(shared.options), line_(shared, at, greeting) {}
  virtual ~Question() = default;

  const Endpoint& at() const noexcept { return line_.at(); }
  void begin(Deadline until);
  void go_on();  // reads what has arrived
  bool under_way() const noexcept { return until_ && !outcome_; }
  bool over() const noexcept { return outcome_.has_value(); }
  // An error names the server; no answer is one, too.
  Result<void> outcome() const;
  void end();  // nothing more will be read from it
  Line& line() noexcept { return line_; }

 protected:
  virtual Result<void> send() = 0;  // sends the first commands
  // Reads the next reply, the `n`th from 0 on, and may send more. True: that was all.
  virtual Result<bool> understand(std::size_t n, Reply) = 0;

  const Options& options_;
  Line line_;

 private:
  Result<bool> step(Deadline now);

  bool answered_ = false;               // over this line
  std::optional<std::size_t> replies_;  // this time; nothing: not sent
  std::optional<Deadline> until_;       // begun
  std::optional<Result<void>> outcome_;
};

// Begins one after the other, whenever one is over or `stagger` has passed, and goes on with them
// until `decided` (called whenever one is over), all are over, or the wait is.
void run_all(const std::vector<Question*>&, Wait, Duration stagger,
             const std::function<bool()>& decided);

}  // namespace dlock::redis
