// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/in_flight.hpp"
#include <algorithm>
#include <utility>

namespace dlock::redis {

void InFlight::begin(Deadline until) {
  until_ = until;
  outcome_.reset();
  replies_.reset();
  if (line_.closed()) {
    answered_ = false;
    line_.dial(until);
  }
  go_on();
}

void InFlight::go_on() {
  while (under_way()) {
    const auto done = step(Clock::now());
    if (done && !*done) return;
    if (done) {
      answered_ = true;
      outcome_ = Result<void>{};
    } else if (std::exchange(answered_, false) && done.error().code == Errc::unavailable) {
      line_.dial(*until_);  // the connection was closed since the last request
      replies_.reset();
    } else {
      line_.close(done.error());
      outcome_ = fail(line_.why_there());
    }
  }
}

Result<bool> InFlight::step(Deadline now) {
  for (;;) {
    auto reply = line_.next(now);
    if (line_.closed()) return fail(line_.why());
    // If we wait for a reply, but no request is in flight, the Transport has left a silent address.
    // Send the request again, to the next address.
    const bool moved = replies_ && !reply && line_.idle();
    if (line_.ready() && (!replies_ || moved)) {
      replies_ = 0;
      TRY_VOID(send());
      continue;
    }
    if (!reply && now >= *until_) return fail(Errc::unavailable, "no answer in time");
    if (!reply) return false;
    TRY(done, on_reply((*replies_)++, std::move(*reply)));
    if (done) return true;
  }
}

Result<void> InFlight::outcome() const {
  if (outcome_) return *outcome_;
  return fail(Errc::unavailable, "{}: no answer in time", at().text());
}

void InFlight::end() {
  if (under_way()) line_.close({Errc::unavailable, "no answer in time"});
  until_.reset();
}

void run_all(const std::vector<InFlight*>& all, Wait wait, Duration stagger,
             const std::function<bool()>& decided) {
  std::size_t begun = 0;
  Deadline next_at = Clock::now();
  for (std::ptrdiff_t over = 0;;) {
    const auto now_over = std::count_if(all.begin(), all.begin() + static_cast<long>(begun),
                                        [](const InFlight* q) { return q->over(); });
    if (std::exchange(over, now_over) != now_over) {
      if (decided()) return;
      next_at = Clock::now();
    }
    const bool more = begun < all.size();
    if (more && Clock::now() >= next_at) {
      all[begun++]->begin(wait.until);
      next_at = later(Clock::now(), stagger);
      continue;
    }
    std::vector<Connection*> lines;
    for (InFlight* q : all)
      if (q->under_way()) lines.push_back(&q->line());
    if ((!more && lines.empty()) || wait.over()) return;
    const Deadline until = more ? std::min(wait.until, next_at) : wait.until;
    if (!wait_for_any(lines, {until, wait.interrupt_fd})) return;
    for (InFlight* q : all) q->go_on();
  }
}

}  // namespace dlock::redis
