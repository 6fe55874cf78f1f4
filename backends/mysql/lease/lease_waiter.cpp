// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include "core/key_view.hpp"
#include "mysql/lease/lease_backend.hpp"
#include "mysql_schema/schema.hpp"

namespace dlock::mysql {
namespace {

using namespace std::chrono_literals;

constexpr Duration longest_sleep = 5s;      // then check again in any case
constexpr Duration one_of_several = 100ms;  // the first of several to end cannot be waited for
constexpr Duration first_idle = 10ms, holder_idle = 250ms, queue_idle = 1s;
constexpr Duration past_the_end = 1ms;
constexpr Duration at_once = 2ms;        // a name obtained so soon was free
constexpr unsigned usual_distance = 16;  // the server's search for deadlocks ends at depth 32

}  // namespace

// A place in the queue of a key, with its own session. It waits in the server for the named lock of
// a waiter ahead; the wait goes on between two polls. Without named locks it polls.
//
// Interleavings that determine the order of statements:
//  1. The holder loses its connection: the head gets its name at once, sees a live lease, naps, and
//  asks again.
//  2. A waiter loses its connection: its row stays, and is passed while its name is free. Back in
//  time it keeps its place.
//  3. Granted, dead before the DELETE: the row stays, its name is free, so it is passed, and swept
//  by the next grant.
//  4. A release and the next one's GET_LOCK cross: named locks are levels, not edges.
//  5. The head is stopped: those behind pass it (LeaseTable::pass_the_frozen).
//  6. An UPDATE or INSERT without answer: a new session reads; our owner among the holders is our
//  grant.
//  7. Stopped between READ and UPDATE: the version has moved, or our lease is old already, which
//  its deadline says.
class LeaseWaiter final : public Waiter {
 public:
  LeaseWaiter(LeaseBackend& backend, const Request& request)
      : backend_(backend), request_(request) {}
  ~LeaseWaiter() override { backend_.client_.drop(std::move(connection_)); }

  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<void> connect();
  Result<std::optional<Progress>> request();
  Result<std::optional<Progress>> request_over(Deadline until);
  Result<void> start_wait();
  Result<bool> receive(Deadline end);  // false: not yet
  Progress waiting();
  Progress granted(LeaseTable::Answered&);
  void plan(const LeaseTable::Answered&);

  LeaseBackend& backend_;
  const Request request_;
  std::unique_ptr<Connection> connection_;
  LeaseTable::Asking asking_;
  Waiting last_;
  bool requested_ = false, reported_ = false;  // reported_: last_.ahead is right
  LeaseTable::Target target_;
  Duration wait_{};                        // for the target, at most
  Deadline retry_at_{};                    // none to wait for: when to poll again
  Deadline refresh_at_{};                  // without named locks: when to show that we live
  Duration idle_{};                        // between two questions
  std::uint64_t version_ = 0;              // seen last
  Deadline wait_began_{};                  // when the wait for the target began
  std::optional<Owner> gone_;              // the holder whose name was free
  std::optional<Deadline> unclear_since_;  // the read before the first swap without an answer
  unsigned breaks_ = 0;
};

Result<std::unique_ptr<Waiter>> LeaseBackend::enqueue(const Request& r) {
  TRY_VOID(can_serve(traits(), r));
  return std::make_unique<LeaseWaiter>(*this, r);
}

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
  if (!reported_ && connection_ && !connection_->under_way() && !connection_->broken()) {
    if (const auto n = backend_.table_.ahead(*connection_, asking_.name, request_.owner,
                                             backend_.client_.usual_deadline()))
      last_.ahead = *n;
    reported_ = true;
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
  requested_ = false;
  return Progress{Granted{std::move(lease)}};
}

void LeaseWaiter::plan(const LeaseTable::Answered& out) {
  const bool same_holder = out.target.holder && gone_ && *gone_ == out.target.owner;
  last_.holder.reset();
  if (out.in_the_way) last_.holder = view(*out.in_the_way, out.now);
  reported_ = false;
  target_ = out.target;
  const auto& w = std::get<LockState::Waiting>(out.answer);
  const Duration to_free =
      w.free_at == never
          ? longest_sleep
          : std::clamp<Duration>(Duration{w.free_at - out.now}, 0us, longest_sleep) + past_the_end;
  const bool named = backend_.table_.setup().named;
  // Its name is free and its lease is not over: only time, or a release by another session, will
  // end it.
  const bool orphan = same_holder || target_.name.empty();
  if (named && !orphan) {
    wait_ = target_.any_of_several ? std::min(one_of_several, to_free)
            : target_.holder       ? to_free
            : out.idle             ? Duration{backend_.table_.setup().claim} + past_the_end
                                   : longest_sleep;
    retry_at_ = {};
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
  retry_at_ = later(Clock::now(), first ? std::min(jittered, to_free) : jittered);
  target_ = {};
}

Result<std::optional<Progress>> LeaseWaiter::request_over(Deadline until) {
  if (!backend_.table_.setup().named && requested_ && Clock::now() >= refresh_at_) {
    TRY_VOID(backend_.table_.say_alive(*connection_, asking_.name, request_.owner, until));
    refresh_at_ = later(Clock::now(), Duration{backend_.table_.setup().patience / 3});
  }
  const Deadline sent = asking_.seen ? asking_.seen->sent : Clock::now();
  auto out = backend_.table_.acquire(*connection_, asking_, until);
  if (!out) {
    if (connection_->broken() && !unclear_since_) unclear_since_ = sent;
    return fail(std::move(out.error()));
  }
  requested_ = true;
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
  reported_ = !backend_.table_.setup().named;
  gone_.reset();
  return std::optional<Progress>{};
}

// An idle connection may have been closed by the server, and a deadlock may hit any session: both
// are retried here.
Result<std::optional<Progress>> LeaseWaiter::request() {
  const Deadline until = backend_.client_.usual_deadline();
  for (unsigned failures = 0;; ++failures) {
    TRY_VOID(connect());
    const bool had_worked = connection_->used;
    auto done = backend_.client_.run_on<std::optional<Progress>>(
        *connection_, until, schema::lease, [&](Connection&) { return request_over(until); });
    if (done || !connection_ || !connection_->broken()) return done;
    asking_.give_up.clear();
    asking_.seen.reset();
    asking_.first = true;  // its names must be taken again
    if (!had_worked || failures >= 2 || Clock::now() >= until || done.error().code == Errc::denied)
      return done;
  }
}

Result<void> LeaseWaiter::start_wait() {
  wait_began_ = Clock::now();
  return backend_.table_.listen(*connection_, asking_, target_.name, wait_);
}

Result<bool> LeaseWaiter::receive(Deadline end) {
  const Deadline answer_by = later(wait_began_, wait_ + backend_.client_.options().op_timeout);
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
    if (connection_->broken() && ++breaks_ <= 3) {  // request() connects again
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
  auto heard = backend_.table_.heard(*connection_, asking_, std::move(**answer), wait_began_,
                                     backend_.client_.usual_deadline());
  if (!heard) return fail(std::move(heard.error()));
  asking_.seen = std::move(heard->seen);
  if (heard->obtained) {
    if (target_.holder) gone_ = target_.owner;
    if (Clock::now() - wait_began_ > at_once) idle_ = {};
  }
  return true;
}

Result<Progress> LeaseWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  if (!requested_ && asking_.name.empty()) {
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
    if (connection_ && connection_->under_way() && !connection_->broken()) {
      const auto received = receive(end);
      if (!received) {
        backend_.client_.drop(std::move(connection_));
        asking_.first = true;
        return fail(received.error());
      }
      if (!*received) return waiting();
    } else if (requested_ && first && slice > 0us && !target_.name.empty() && connection_ &&
               !connection_->broken()) {
      if (start_wait()) continue;  // if not, request() finds the error
    } else if (requested_ && retry_at_ > Clock::now() && slice > 0us) {
      wait_for(-1, 0, {std::min(end, retry_at_), backend_.client_.options().interrupt_fd});
      if (Clock::now() < retry_at_) return waiting();
      ++backend_.wakeups_;
    }
    TRY(done, request());
    if (done) return std::move(*done);
    if (Clock::now() >= end) return waiting();
    if (!target_.name.empty()) TRY_VOID(start_wait());
  }
}

Result<void> LeaseWaiter::cancel() {
  if (connection_ && connection_->under_way()) {
    (void)backend_.client_.end_wait(*connection_);
    if (connection_->under_way() || connection_->broken())
      backend_.client_.drop(std::move(connection_));
  }
  const auto* held = backend_.held(request_.key, request_.owner);
  if (!requested_ && !connection_ && !held && !unclear_since_) return {};  // nothing was ever sent
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
  requested_ = false;
  unclear_since_.reset();
  target_ = {};
  asking_.seen.reset();
  asking_.first = true;
  return {};
}

}  // namespace dlock::mysql
