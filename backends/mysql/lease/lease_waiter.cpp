// SPDX-License-Identifier: Apache-2.0
#include "mysql/lease/lease_waiter.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/key_view.hpp"
#include "mysql_schema/schema.hpp"

namespace dlock::mysql {
namespace {

using namespace std::chrono_literals;

constexpr Duration longest_wait = 5s;       // then check again in any case
constexpr Duration one_of_several = 100ms;  // the first of several to end cannot be waited for
constexpr Duration first_idle = 10ms, holder_idle = 250ms, queue_idle = 1s;
constexpr Duration past_the_end = 1ms;
constexpr Duration at_once = 2ms;        // a name obtained so soon was free
constexpr unsigned usual_distance = 16;  // the server's search for deadlocks ends at depth 32

}  // namespace

Result<void> LeaseWaiter::connect() {
  const Deadline until = backend_.client_.usual_deadline();
  if (connection_ && !connection_->broken()) return {};
  backend_.client_.drop(std::move(connection_));
  TRY(c, backend_.client_.take_writer(until));
  connection_ = std::move(c);
  backend_.adapt(*connection_);
  return connection_->wait_timeout(std::max<Duration>(request_.ttl + 15s, 120s), until);
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

// The lease counts from before the read on which it was granted; an earlier grant, whose reply was
// lost, from the read before that.
Progress LeaseWaiter::granted(LeaseTable::Answered& out) {
  const auto& g = std::get<LockState::Granted>(out.answer);
  Lease lease{request_.key, request_.owner, request_.mode,
              g.token,      g.slot,         lease_end(out.sent, request_.ttl)};
  if (out.held && unclear_since_) lease.deadline = lease_end(*unclear_since_, request_.ttl);
  auto& held = backend_.held_[{request_.key.text(), request_.owner}];
  if (held.connection) backend_.client_.drop(std::move(held.connection));
  held.connection = std::move(connection_);
  held.known = std::move(out.known);
  unclear_since_.reset();
  asked_ = false;
  return Progress{Granted{std::move(lease)}};
}

void LeaseWaiter::plan(const LeaseTable::Answered& out) {
  const bool same_holder = out.target.holder && gone_ && *gone_ == out.target.owner;
  last_.holder.reset();
  if (out.in_the_way) last_.holder = view(*out.in_the_way, out.now);
  told_ = false;
  target_ = out.target;
  const auto& w = std::get<LockState::Waiting>(out.answer);
  const Duration to_free =
      w.free_at == never
          ? longest_wait
          : std::clamp<Duration>(Duration{w.free_at - out.now}, 0us, longest_wait) + past_the_end;
  const bool named = backend_.table_.setup().named;
  // Its name is free and its lease is not over: only time, or a release by another session, will
  // end it.
  const bool orphan = same_holder || target_.name.empty();
  if (named && !orphan) {
    wait_ = target_.any_of_several ? std::min(one_of_several, to_free)
            : target_.holder       ? to_free
            : out.idle             ? Duration{backend_.table_.setup().claim} + past_the_end
                                   : longest_wait;
    ask_at_ = {};
    return;
  }
  const bool first = target_.holder || target_.name.empty();
  // Without a wake-up: with changes, soon, and sooner with fewer waiters ahead; without changes,
  // less and less often.
  const bool moved = std::exchange(version_, out.version) != out.version && !named;
  const auto place = static_cast<Duration::rep>(last_.ahead) + 1;
  idle_ =
      idle_ == Duration{} || moved ? first_idle * place : idle_ * (named ? 2 : 3) / (named ? 1 : 2);
  idle_ = std::min(idle_, first ? holder_idle : queue_idle);
  const Duration jittered =
      idle_ * (768 + request_.owner.bytes[static_cast<std::size_t>(out.now) % 16]) / 1024;
  ask_at_ = later(Clock::now(), first ? std::min(jittered, to_free) : jittered);
  target_ = {};
}

Result<std::optional<Progress>> LeaseWaiter::ask_over(Deadline until) {
  if (!backend_.table_.setup().named && asked_ && Clock::now() >= speak_at_) {
    TRY_VOID(backend_.table_.say_alive(*connection_, asking_.name, request_.owner, until));
    speak_at_ = later(Clock::now(), Duration{backend_.table_.setup().patience / 3});
  }
  const Deadline sent = Clock::now();
  auto out = backend_.table_.acquire(*connection_, asking_, until);
  if (!out) {
    if (connection_->broken() && !unclear_since_) unclear_since_ = sent;
    return fail(std::move(out.error()));
  }
  asked_ = true;
  if (std::holds_alternative<LockState::Granted>(out->answer)) return std::optional{granted(*out)};
  if (std::holds_alternative<LockState::Busy>(out->answer)) {
    std::optional<HolderView> by;
    if (out->in_the_way) by = view(*out->in_the_way, out->now);
    const Deadline now = Clock::now();
    if (backend_.table_.free_names(*connection_, request_.owner,
                                   later(now, backend_.client_.options().op_timeout)))
      backend_.client_.give_back(std::move(connection_));
    return std::optional{Progress{Busy{std::move(by)}}};
  }
  if (!backend_.table_.setup().named) {
    TRY(n, backend_.table_.ahead(*connection_, asking_.name, request_.owner, until));
    last_.ahead = n;
  }
  plan(*out);
  told_ = !backend_.table_.setup().named;
  gone_.reset();
  return std::optional<Progress>{};
}

// An idle connection may have been closed by the server, and a deadlock may hit any session: both
// are retried here.
Result<std::optional<Progress>> LeaseWaiter::ask() {
  const Deadline until = backend_.client_.usual_deadline();
  for (unsigned failures = 0;; ++failures) {
    TRY_VOID(connect());
    const bool had_worked = connection_->used;
    auto done = backend_.client_.run_on<std::optional<Progress>>(
        *connection_, until, schema::lease, [&](Connection&) { return ask_over(until); });
    if (done || !connection_ || !connection_->broken()) return done;
    asking_.give_up.clear();
    asking_.first = true;  // its names must be taken again
    if (!had_worked || failures >= 2 || Clock::now() >= until || done.error().code == Errc::denied)
      return done;
  }
}

Result<void> LeaseWaiter::listen() {
  const double seconds = std::max(0.001, std::chrono::duration<double>(wait_).count());
  listened_ = Clock::now();
  return connection_->send("wait",
                           fmt::format("SELECT GET_LOCK('{}',{:.3f})", target_.name, seconds));
}

Result<bool> LeaseWaiter::hear(Deadline end) {
  const Deadline answer_by = later(listened_, wait_ + backend_.client_.options().op_timeout);
  auto answer =
      connection_->receive({std::min(end, answer_by), backend_.client_.options().interrupt_fd});
  if (!answer) {
    gone_.reset();
    // ER_LOCK_DEADLOCK: the chain of waiters is too deep for the server's deadlock search. Wait
    // further ahead.
    if (connection_->remedy() == Remedy::later) {
      asking_.distance = std::min(asking_.distance * 2, 1024u);
      return true;
    }
    if (connection_->broken() && ++breaks_ <= 3) {  // ask() connects again
      asking_.first = true;
      return true;
    }
    return fail(std::move(answer.error()));
  }
  if (!*answer) {
    if (Clock::now() < answer_by) return false;
    return fail(Errc::unavailable,
                fmt::format("wait at {}: no answer in time", connection_->at().text()));
  }
  ++backend_.wakeups_;
  breaks_ = 0;
  asking_.distance = usual_distance;
  if ((*answer)->text(0) == "1") {
    connection_->names.push_back(target_.name);
    asking_.give_up = target_.name;
    if (target_.holder) gone_ = target_.owner;
    if (Clock::now() - listened_ > at_once) idle_ = {};
  }
  return true;
}

Result<Progress> LeaseWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  if (!asked_ && asking_.name.empty()) {
    asking_.name = backend_.name_of(request_.key);
    asking_.key = request_.key.text();
    asking_.distance = usual_distance;
    asking_.untried = !backend_.holds_any(request_.owner);
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
    asking_.first = true;
  }
  for (bool first = true;; first = false) {
    if (connection_ && connection_->under_way()) {
      const auto heard = hear(end);
      if (!heard) {
        backend_.client_.drop(std::move(connection_));
        asking_.first = true;
        return fail(heard.error());
      }
      if (!*heard) return waiting();
    } else if (asked_ && first && slice > 0us && !target_.name.empty() && connection_ &&
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
    if (!target_.name.empty()) TRY_VOID(listen());
  }
}

Result<void> LeaseWaiter::cancel() {
  if (connection_ && connection_->under_way()) {  // out of the wait, by another session
    const auto id = connection_->facts().thread;
    const Deadline until = backend_.client_.usual_deadline();
    auto killed = backend_.client_.run<Answer>(until, "", [&](Connection& c) {
      return c.query("end the wait", fmt::format("KILL QUERY {}", id), until);
    });
    bool over = false;
    if (killed) {
      const auto answer = connection_->receive({until});
      over = !answer ? !connection_->broken() : answer->has_value();
      if (answer && *answer && (*answer)->text(0) == "1")
        connection_->names.push_back(target_.name);
    }
    if (!over) backend_.client_.drop(std::move(connection_));
  }
  const auto* held = backend_.held(request_.key, request_.owner);
  if (!asked_ && !connection_ && !held && !unclear_since_) return {};  // nothing was ever sent
  if (held) backend_.let_go(request_.key, request_.owner);
  const std::string name = backend_.name_of(request_.key);
  const Deadline until = backend_.client_.usual_deadline();
  using Both = std::pair<bool, bool>;
  const std::function<Result<Both>(Connection&)> step = [&](Connection& c) -> Result<Both> {
    auto r = backend_.table_.cancel(c, name, request_.owner, until);
    if (!r && c.remedy() == Remedy::create) return Both{};
    return r;
  };
  Result<Both> done = fail(Errc::unavailable, "");
  if (connection_ && !connection_->broken())
    done = backend_.client_.run_on<Both>(*connection_, until, "", step);
  backend_.client_.drop(std::move(connection_));
  if (!done) done = backend_.client_.run<Both>(until, "", step);
  if (!done) return fail(std::move(done.error()));
  asked_ = false;
  unclear_since_.reset();
  target_ = {};
  asking_.first = true;
  return {};
}

}  // namespace dlock::mysql
