// SPDX-License-Identifier: Apache-2.0
#include "postgresql/lease/lease_waiter.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::postgresql {
namespace {

using namespace std::chrono_literals;

// Then check again in any case. A wait is a transaction, too: longer ones would keep the dead
// versions of the rows.
constexpr Duration longest_wait = 5s;
constexpr Duration one_of_several = 100ms;  // the first of several to end cannot be waited for
constexpr Duration first_idle = 10ms, holder_idle = 250ms, queue_idle = 1s;
constexpr Duration past_the_end = 1ms;
constexpr Duration at_once = 2ms;  // a ticket obtained so soon was free

}  // namespace

Result<void> LeaseWaiter::connect() {
  if (connection_ && !connection_->broken()) return {};
  backend_.client_.drop(std::move(connection_));
  TRY(c, backend_.client_.take(backend_.client_.usual_deadline()));
  connection_ = std::move(c);
  backend_.adapt(*connection_);
  return {};
}

Progress LeaseWaiter::waiting() {
  if (!told_ && connection_ && !connection_->under_way() && !connection_->broken()) {
    if (const auto n = backend_.table_.ahead(*connection_, asking_.name, request_.owner,
                                             backend_.client_.usual_deadline()))
      last_.ahead = *n;
    told_ = true;
  }
  return Progress{last_};
}

// The lease counts from before the reading on which it was granted; of an earlier grant, whose
// reply was lost, what is left.
Progress LeaseWaiter::granted(LeaseTable::Answered& out) {
  const auto& g = std::get<LockState::Granted>(out.answer);
  Duration left = request_.ttl;
  for (const auto& h : out.known.holders.list)
    if (out.held && h.owner == request_.owner)
      left = std::min<Duration>(left, Duration{h.deadline - out.now});
  Lease lease{request_.key, request_.owner, request_.mode, g.token, g.slot};
  lease.deadline = later(out.sent, left - drift(request_.ttl));
  auto& held = backend_.held_[{request_.key.text(), request_.owner}];
  backend_.client_.drop(std::move(held.connection));
  held.connection = std::move(connection_);
  held.known = std::move(out.known);
  asked_ = false;
  return Progress{Granted{std::move(lease)}};
}

void LeaseWaiter::plan(const LeaseTable::Answered& out) {
  const bool same = out.target.ticket != 0 && gone_ == out.target.ticket;
  last_.holder.reset();
  if (out.in_the_way) last_.holder = view(*out.in_the_way, out.now);
  target_ = out.target;
  const auto& w = std::get<LockState::Waiting>(out.answer);
  const Duration to_free =
      w.free_at == never
          ? longest_wait
          : std::clamp<Duration>(Duration{w.free_at - out.now}, 0us, longest_wait) + past_the_end;
  const bool wakes = backend_.table_.setup().wakes;
  // Its ticket is free and its lease is not over: only time, or a release by another session, will
  // end it.
  if (wakes && !same && target_.ticket != 0) {
    wait_ = target_.any_of_several ? std::min(one_of_several, to_free)
            : target_.holder       ? to_free
            : out.idle             ? Duration{backend_.table_.setup().claim} + past_the_end
                                   : longest_wait;
    ask_at_ = {};
    return;
  }
  const bool first = target_.holder || target_.ticket == 0;
  // Without a wake-up: with changes, soon, and sooner with fewer waiters ahead; without changes,
  // less and less often.
  const bool moved = std::exchange(version_, out.version) != out.version && !wakes;
  const auto place = static_cast<Duration::rep>(last_.ahead) + 1;
  idle_ =
      idle_ == Duration{} || moved ? first_idle * place : idle_ * (wakes ? 2 : 3) / (wakes ? 1 : 2);
  idle_ = std::min(idle_, first ? holder_idle : queue_idle);
  const Duration jittered =
      idle_ * (768 + request_.owner.bytes[static_cast<std::size_t>(out.now) % 16]) / 1024;
  ask_at_ = later(Clock::now(), first ? std::min(jittered, to_free) : jittered);
  target_ = {};
}

Result<std::optional<Progress>> LeaseWaiter::ask_over(Deadline until) {
  LeaseTable& table = backend_.table_;
  const bool wakes = table.setup().wakes;
  if (!wakes && asked_ && Clock::now() >= speak_at_) {
    TRY_VOID(table.say_alive(*connection_, asking_.name, request_.owner, until));
    speak_at_ = later(Clock::now(), Duration{table.setup().patience / 3});
  }
  tried_ = true;
  TRY(out, table.acquire(*connection_, asking_, until));
  asked_ = true;
  if (std::holds_alternative<LockState::Granted>(out.answer)) return std::optional{granted(out)};
  if (std::holds_alternative<LockState::Busy>(out.answer)) {
    std::optional<HolderView> by;
    if (out.in_the_way) by = view(*out.in_the_way, out.now);
    backend_.client_.give_back(std::move(connection_));
    return std::optional{Progress{Busy{std::move(by)}}};
  }
  if (!wakes) {
    TRY(n, table.ahead(*connection_, asking_.name, request_.owner, until));
    last_.ahead = n;
  }
  plan(out);
  told_ = !wakes;
  gone_.reset();
  return std::optional<Progress>{};
}

// An idle connection may have been closed by the server.
Result<std::optional<Progress>> LeaseWaiter::ask() {
  const Deadline until = backend_.client_.usual_deadline();
  for (unsigned failures = 0;; ++failures) {
    TRY_VOID(connect());
    const bool had_worked = connection_->used;
    auto done = backend_.client_.run_on<std::optional<Progress>>(
        *connection_, until, true, [&](Connection&) { return ask_over(until); });
    if (done || !connection_ || !connection_->broken()) return done;
    asking_.seen.reset();
    const bool again = had_worked || connection_->remedy() == Remedy::later;
    if (!again || failures >= 2 || Clock::now() >= until || !retryable(done.error().code))
      return done;
  }
}

Result<void> LeaseWaiter::listen() {
  listened_ = Clock::now();
  return backend_.table_.listen(*connection_, asking_, target_.ticket, wait_);
}

Result<bool> LeaseWaiter::hear(Deadline end) {
  const Duration patience = backend_.client_.options().op_timeout;
  const Deadline answer_by = later(listened_, wait_ + patience);
  auto answer =
      connection_->receive({std::min(end, answer_by), backend_.client_.options().interrupt_fd});
  if (!answer) {
    gone_.reset();
    asking_.seen.reset();
    if (++breaks_ <= 3) return true;  // ask() connects again
    return fail(std::move(answer.error()));
  }
  if (!*answer) {
    if (Clock::now() < answer_by) return false;
    return fail(Errc::unavailable,
                fmt::format("wait at {}: no answer in time", connection_->at().text()));
  }
  ++backend_.wakeups_;
  breaks_ = 0;
  auto seen = backend_.table_.heard(*connection_, asking_, **answer, listened_,
                                    later(Clock::now(), patience));
  if (!seen) return fail(std::move(seen.error()));
  if (!seen->old) gone_ = target_.ticket;
  asking_.seen = std::move(*seen);
  if (Clock::now() - listened_ > at_once) idle_ = {};
  return true;
}

Result<Progress> LeaseWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  if (asking_.name.empty()) {
    asking_.name = backend_.name_of(request_.key);
    asking_.key = request_.key.text();
    asking_.ask = {.owner = request_.owner,
                   .mode = request_.mode,
                   .limit = request_.limit,
                   .ttl = request_.ttl.count(),
                   .delay = request_.lock_delay.count(),
                   .wait = request_.wait,
                   .meta = request_.identity.encode()};
  }
  // repeated for a lock that we hold
  if (const auto* h = backend_.held(request_.key, request_.owner); h && !connection_) {
    TRY(again, backend_.renew({request_.key, request_.owner}, request_.ttl));
    if (auto* kept = std::get_if<Kept>(&again)) return Progress{Granted{std::move(kept->lease)}};
  }
  for (bool first = true;; first = false) {
    if (connection_ && connection_->under_way()) {
      const auto heard = hear(end);
      if (!heard) {
        backend_.client_.drop(std::move(connection_));
        return fail(heard.error());
      }
      if (!*heard) return waiting();
    } else if (asked_ && first && slice > 0us && target_.ticket != 0 && connection_ &&
               !connection_->broken()) {
      if (listen()) continue;  // if not, ask() finds the error
    } else if (asked_ && ask_at_ > Clock::now() && slice > 0us) {
      wait_for(-1, 0, {std::min(end, ask_at_), backend_.client_.options().interrupt_fd});
      if (Clock::now() < ask_at_) return waiting();
      ++backend_.wakeups_;
    }
    TRY(done, ask());
    if (done) return std::move(*done);
    if (Clock::now() >= end) return waiting();
    if (target_.ticket != 0) TRY_VOID(listen());
  }
}

Result<void> LeaseWaiter::cancel() {
  const auto* held = backend_.held(request_.key, request_.owner);
  if (!tried_ && !held) return {};  // nothing was ever sent
  if (held) backend_.let_go(request_.key, request_.owner);
  const std::string name = backend_.name_of(request_.key);
  const Deadline until = backend_.client_.usual_deadline();
  // A session that waits in the server is ended by another.
  const bool waits = connection_ && connection_->under_way() && !connection_->broken();
  const int waiting = waits ? connection_->facts().pid : 0;
  const std::function<Result<bool>(Connection&)> step = [&](Connection& c) -> Result<bool> {
    auto r = backend_.table_.cancel(c, name, request_.owner, waiting, until);
    if (!r && c.remedy() == Remedy::create) return false;
    return r;
  };
  Result<bool> done = fail(Errc::unavailable, "");
  if (connection_ && !waits && !connection_->broken()) {
    done = step(*connection_);
    if (done) backend_.client_.give_back(std::move(connection_));
  }
  if (!done) done = backend_.client_.run<bool>(until, false, step);
  backend_.client_.drop(std::move(connection_));
  if (!done) return fail(std::move(done.error()));
  asked_ = false;
  tried_ = false;
  target_ = {};
  return {};
}

}  // namespace dlock::postgresql
