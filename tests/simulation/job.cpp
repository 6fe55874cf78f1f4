// SPDX-License-Identifier: Apache-2.0
#include "simulation/job.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <utility>

namespace dlock::simulation {

namespace {

constexpr Nanos longest_reaction = 50 * millisecond, longest_death = 150 * millisecond;

}  // namespace

Deadline Guard::now() const noexcept {
  return Deadline{std::chrono::nanoseconds{machine_.clock(world_.now())}};
}

Nanos Guard::delay(Nanos most) noexcept {
  return world_.uniform ? most / 2
                        : static_cast<Nanos>(world_.dice.below(static_cast<std::uint64_t>(most)));
}

void Guard::later(Nanos span, std::uint64_t tag, void (Guard::*what)()) {
  world_.after(span, mixed(tag, token_), [this, what] { (this->*what)(); });
}

void Guard::start(FencingToken token, const run::GuardDeadlines& when, std::vector<OpenPtr> holds) {
  when_ = when;
  if (now() >= when_.term_at) return tell_(run::event::StartRefused{});
  holds_ = std::move(holds);
  token_ = token;
  lives_ = true;
  if (world_.told()) world_.say(who_, fmt::format("starts its job with token {}", token));
  ledger_.started(token, who_);
  tell_(run::event::JobStarted{1});
  write();
  later(plan_.runs, 30, &Guard::end);
  arm();
}

void Guard::deadlines(const run::GuardDeadlines& when) {
  if (!expired_) when_ = when;
  else when_.kill_at = std::min(when_.kill_at, when.kill_at), when_.stop_by = when.stop_by;
  arm();
  check();
}

void Guard::arm() {
  if (!lives_ || sweeping_) return;
  const Deadline at =
      std::min({expired_ ? no_deadline : when_.term_at, when_.kill_at, when_.stop_by});
  if (at == no_deadline) return;
  world_.at(machine_.when(at.time_since_epoch().count()) + delay(longest_reaction),
            mixed(31, token_), [this] { check(); });
}

void Guard::check() {
  if (!lives_ || machine_.asleep) return;
  if (!expired_ && now() >= std::min(when_.term_at, when_.kill_at)) {
    expired_ = true;
    if (world_.told()) world_.say(who_, "the lease is over: TERM");
    tell_(run::event::Expired{});
    signal_all();
    arm();
  }
  if (now() >= std::min(when_.kill_at, when_.stop_by)) sweep();
}

void Guard::signal_all() {
  if (!lives_ || std::exchange(signalled_, true) || !plan_.ends_on_term) return;
  later(*plan_.ends_on_term, 32, &Guard::end);
}

void Guard::sweep() {
  if (!lives_ && gone_) holds_.clear();
  if (!lives_ || std::exchange(sweeping_, true)) return;
  if (world_.told()) world_.say(who_, "KILL");
  tell_(run::event::Killing{});
  later(delay(longest_death), 33, &Guard::dead);
}

void Guard::dlock_is_gone() {
  gone_ = true;
  later(delay(longest_reaction), 34, &Guard::sweep);
}

void Guard::killed() {
  gone_ = true;
  dead();
  holds_.clear();  // also where no job was alive
}

void Guard::machine_sleeps() {
  if (!lives_) return;
  excused_ = true;
  ledger_.slept(token_);
}

// The job may run a moment before the guard does.
void Guard::machine_woke() {
  if (std::exchange(writes_, false)) later(delay(millisecond), 35, &Guard::write);
  if (std::exchange(ends_, false)) later(delay(longest_reaction), 36, &Guard::end);
  if (std::exchange(dies_, false)) later(delay(longest_reaction), 37, &Guard::dead);
  later(delay(longest_reaction), 38, &Guard::check);
}

void Guard::write() {
  if (!lives_) return;
  if (machine_.asleep) {
    writes_ = true;
    return;
  }
  ledger_.writes(token_, who_);
  later(plan_.runs / 4 + 1, 39, &Guard::write);
}

void Guard::end() {
  if (machine_.asleep) {
    ends_ = true;
    return;
  }
  if (!lives_ || sweeping_) return;
  if (signalled_) status_ = SIGTERM;
  dead();
}

void Guard::dead() {
  if (machine_.asleep) {
    dies_ = true;
    return;
  }
  if (!std::exchange(lives_, false)) return;
  if (sweeping_) status_ = SIGKILL;
  if (world_.told()) world_.say(who_, "its job is dead");
  ledger_.died(token_, excused_, plan_.lock_delay);
  holds_.clear();
  if (!gone_) tell_(run::event::TreeDead{status_, expired_});
}

std::uint64_t Guard::hash() const noexcept {
  if (!lives_) return 0;
  std::uint64_t h =
      mixed(token_, static_cast<std::uint64_t>(when_.kill_at.time_since_epoch().count()));
  h = mixed(h, static_cast<std::uint64_t>(when_.term_at.time_since_epoch().count()));
  return mixed(
      h, (expired_ ? 1U : 0U) + (sweeping_ ? 2U : 0U) + (gone_ ? 4U : 0U) + (signalled_ ? 8U : 0U));
}

}  // namespace dlock::simulation
