// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/dialogue.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include <vector>
#include "util/wait.hpp"

namespace dlock::redis {

void Talk::dial() {
  connection_.reset();
  used_ = spoken_ = false;
  connection_ = Connection::start(at_, tls_, silence_, until_);
}

void Talk::begin(Dialogue& dialogue, Deadline until) {
  dialogue_ = &dialogue;
  until_ = until;
  outcome_.reset();
  spoken_ = false;
  if (!connection_) dial();
  advance();
}

void Talk::finish(Result<void> outcome) {
  if (!outcome) {
    connection_.reset();
    Error& e = outcome.error();
    if (e.message.find(at_.text()) == e.message.npos)
      e.message = fmt::format("{}: {}", at_.text(), e.message);
  } else {
    used_ = true;
  }
  outcome_ = std::move(outcome);
}

void Talk::advance() {
  while (begun() && !over()) {
    const auto done = step();
    if (done && *done) return finish({});
    if (!done && used_ && done.error().code == Errc::unavailable) {  // it had been closed meanwhile
      dial();
      continue;
    }
    if (!done) return finish(fail(done.error()));
    if (Clock::now() >= until_) return finish(fail(Errc::unavailable, "no answer in time"));
    return;
  }
}

Result<bool> Talk::step() {
  const auto open = connection_->step_open();
  if (!open || !*open) return open;
  if (!std::exchange(spoken_, true)) dialogue_->begin(*connection_);
  for (;;) {
    TRY_VOID(connection_->push());
    TRY(reply, connection_->receive({Deadline{}}));
    if (!reply) return false;
    auto done = dialogue_->hear(std::move(*reply), *connection_);
    if (!done || *done) return done;
  }
}

void Talk::end() {
  if (begun() && !over()) {
    if (connection_ && spoken_) connection_->abandon();
    connection_.reset();
  }
  dialogue_ = nullptr;
}

void converse(std::span<Talk* const> all, Wait wait, Duration stagger,
              const std::function<bool()>& next, const std::function<bool()>& decided) {
  std::vector<pollfd> watched(all.size() + 1);
  const auto done = [&] {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const Talk* t) { return t->over(); }));
  };
  bool more = next();
  Deadline next_at = later(Clock::now(), stagger);
  for (std::size_t over = 0;;) {
    if (const std::size_t now_over = done(); now_over != over) {
      over = now_over;
      if (decided()) return;
      next_at = Clock::now();
    }
    if (more && Clock::now() >= next_at) {
      more = next();
      next_at = later(Clock::now(), stagger);
      continue;
    }
    if (!more && std::none_of(all.begin(), all.end(),
                              [](const Talk* t) { return t->begun() && !t->over(); }))
      return;
    if (wait.over() || wait.interrupted()) return;
    Deadline until = more ? std::min(wait.until, next_at) : wait.until;
    for (std::size_t i = 0; i < all.size(); ++i) {
      watched[i] = {all[i]->poll_fd(), all[i]->poll_events(), 0};
      if (watched[i].fd >= 0) until = std::min(until, all[i]->poll_until());
    }
    watched.back() = {wait.interrupt, POLLIN, 0};
    (void)wait_until(watched, until);
    for (Talk* t : all) t->advance();
  }
}

}  // namespace dlock::redis
