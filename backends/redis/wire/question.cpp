// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/question.hpp"
#include <algorithm>
#include <utility>
#include <vector>

namespace dlock::redis {

void Question::begin(Deadline until) {
  until_ = until;
  outcome_.reset();
  asked_ = false;
  if (line_.closed()) answered_ = false;
  if (line_.closed()) line_.dial(until);
  go_on();
}

void Question::go_on() {
  while (under_way()) {
    const auto done = step(Clock::now());
    if (done && !*done) return;
    if (done) {
      answered_ = true;
      outcome_ = Result<void>{};
    } else if (std::exchange(answered_, false) && done.error().code == Errc::unavailable) {
      line_.dial(*until_);  // it had been closed meanwhile
      asked_ = false;
    } else {
      line_.close(done.error());
      outcome_ = fail(line_.why_there());
    }
  }
}

Result<bool> Question::step(Deadline now) {
  for (;;) {
    auto reply = line_.next(now);
    if (line_.closed()) return fail(line_.why());
    if (line_.ready() && !std::exchange(asked_, true)) {
      TRY_VOID(ask());
      continue;
    }
    if (!reply && now >= *until_) return fail(Errc::unavailable, "no answer in time");
    if (!reply) return false;
    TRY(done, understand(std::move(*reply)));
    if (done) return true;
  }
}

void Question::end() {
  if (under_way()) line_.close({Errc::unavailable, "no answer in time"});
  until_.reset();
}

void ask_all(std::span<Question* const> all, Wait wait, Duration stagger,
             const std::function<bool()>& next, const std::function<bool()>& decided) {
  std::vector<Line*> lines;
  const auto how_many_over = [&] {
    return std::count_if(all.begin(), all.end(), [](const Question* q) { return q->over(); });
  };
  bool more = next();
  Deadline next_at = later(Clock::now(), stagger);
  for (std::ptrdiff_t over = 0;;) {
    if (const auto now_over = how_many_over(); now_over != over) {
      over = now_over;
      if (decided()) return;
      next_at = Clock::now();
    }
    if (more && Clock::now() >= next_at) {
      more = next();
      next_at = later(Clock::now(), stagger);
      continue;
    }
    lines.clear();
    for (Question* q : all)
      if (q->under_way()) lines.push_back(&q->line());
    if ((!more && lines.empty()) || wait.over()) return;
    if (!wait_for_any(lines,
                      {more ? std::min(wait.until, next_at) : wait.until, wait.interrupt_fd}))
      return;
    for (Question* q : all) q->go_on();
  }
}

}  // namespace dlock::redis
