// SPDX-License-Identifier: Apache-2.0
// A waiter in the queue of a key in a database. It has a session of its own, which becomes the
// session of the grant. It waits in the server for the lock of a contender ahead, and reads the key
// after that wait, in the same exchange. The wait goes on between two polls. If sessions have no
// such locks, the waiter polls.
//
// Interleavings that determine the order of statements:
//  1. The holder loses its session: the first waiter gets the holder's lock at once, sees that the
//     lease is not over, sleeps, and asks again.
//  2. A waiter loses its session: its row stays, and others pass the row while its lock is free. If
//     the waiter comes back in time, it keeps its place.
//  3. A waiter is granted the key, and dies before its row is deleted: the row stays, but its lock
//     is free. So others pass the row, and the next grant deletes it.
//  4. A release and the next waiter's wait cross: the lock stays free after the release, so a wait
//     that begins later ends at once.
//  5. The first waiter is stopped: the waiters behind it pass it (SqlLeaseTable::pass_the_stopped).
//  6. A grant got no reply: it was carried out, was not carried out, or will be carried out late.
//     If it was carried out, the next reading finds our owner, and we have the rest of that lease.
//     A late grant writes nothing, unless the row is still in the state on which the grant was
//     decided. In that case the grant makes a lease whose deadline was fixed by the reading of that
//     state. Our next request finds this lease, or the lease expires.
//  7. We are stopped between READ and UPDATE: if the version has changed, the UPDATE writes
//     nothing. Otherwise our lease is already old, and its deadline shows this.
#include <algorithm>
#include "sql/sql_lease_backend.hpp"

namespace dlock {
namespace {

using Seconds = std::chrono::seconds;
using Milliseconds = std::chrono::milliseconds;

// After this time a waiter reads the key in any case. If a wait is a transaction in the server, a
// longer wait would keep the dead versions of rows. A waiter for a permit reads more often: each
// renewal of another permit changes the time in the row, so the row does not show since when there
// has been room.
Duration longest_wait(const Request& r) {
  return std::min<Duration>(r.mode == Mode::permit ? Seconds{2} : Seconds{5}, r.ttl / 3);
}
// The longest wait for one of several holders: it is unknown which lease ends first.
constexpr Duration one_of_several = Milliseconds{100};
constexpr Duration first_idle = Milliseconds{10}, holder_idle = Milliseconds{250},
                   queue_idle = Seconds{1};
constexpr Duration past_the_end = Milliseconds{1};
constexpr Duration at_once = Milliseconds{2};  // if a lock was obtained so soon, it was free

}  // namespace

class SqlLeaseWaiter final : public Waiter {
 public:
  SqlLeaseWaiter(SqlLeaseBackend& backend, const Request& request)
      : backend_(backend),
        client_(*backend.client_),
        table_(*backend.table_),
        request_(request),
        longest_(longest_wait(request)) {}
  ~SqlLeaseWaiter() override { client_.drop(std::move(session_)); }

  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  Result<void> connect();
  Result<std::optional<Progress>> request();
  Result<std::optional<Progress>> request_over(Deadline until);
  Result<void> start_wait();
  Result<bool> receive(Deadline end);  // false: no reply yet
  Progress waiting();
  Progress granted(SqlLeaseDecision&);
  void plan(const SqlLeaseDecision&);

  SqlLeaseBackend& backend_;
  SqlClient& client_;
  SqlLeaseTable& table_;
  const Request request_;
  const Duration longest_;
  std::unique_ptr<SqlSession> session_;
  SqlLeaseAttempt attempt_;
  Waiting last_;
  bool requested_ = false, reported_ = false;  // reported_: last_.ahead is up to date
  bool tried_ = false;                         // a request was sent
  SqlWakeTarget target_;
  Duration wait_{};                  // the longest wait for the target
  Deadline retry_at_{};              // when to poll again, if there is no lock to wait for
  Deadline refresh_at_{};            // when to show that we live, if there are no wake-ups
  Duration idle_{};                  // the pause between two requests
  std::uint64_t version_ = 0;        // the version that was seen last
  Deadline wait_began_{};            // when the wait for the target began
  std::optional<std::string> gone_;  // the lock that the last wait obtained
  unsigned breaks_ = 0;
};

std::unique_ptr<Waiter> sql_lease_waiter(SqlLeaseBackend& backend, const Request& request) {
  return std::make_unique<SqlLeaseWaiter>(backend, request);
}

Result<Progress> SqlLeaseWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  last_.sent_at = {};
  if (attempt_.name.empty()) {
    attempt_.name = backend_.name_of(request_.key);
    attempt_.key = request_.key.text();
    attempt_.untried = !table_.locks_by_owner() || !backend_.holds_any(request_.owner);
    attempt_.request = {.owner = request_.owner,
                        .mode = request_.mode,
                        .limit = request_.limit,
                        .ttl = request_.ttl.count(),
                        .delay = request_.lock_delay.count(),
                        .wait = request_.wait,
                        .meta = request_.identity.encode()};
  }
  // This is a repeated request for a lock that we hold.
  if (const auto* h = backend_.grant_of(request_.key, request_.owner); h && !session_) {
    TRY(again, backend_.renew({request_.key, request_.owner}, request_.ttl));
    if (auto* kept = std::get_if<Kept>(&again)) return Granted{std::move(kept->lease)};
  }
  for (bool first = true;; first = false) {
    // Do not read from a broken session: it may also have an outstanding reply, but to an earlier
    // request.
    if (session_ && session_->under_way() && !session_->broken()) {
      const auto received = receive(end);
      if (!received) {
        client_.drop(std::move(session_));
        return fail(received.error());
      }
      if (!*received) return waiting();
    } else if (requested_ && first && slice > Duration{} && !target_.lock.empty() && session_ &&
               !session_->broken()) {
      if (start_wait()) continue;  // if not, request() finds the error
    } else if (requested_ && retry_at_ > Clock::now() && slice > Duration{}) {
      wait_for(-1, 0, {std::min(end, retry_at_), client_.options().interrupt_fd});
      if (Clock::now() < retry_at_) return waiting();
      ++backend_.wakeups_;
    }
    TRY(done, request());
    if (done) return std::move(*done);
    if (Clock::now() >= end) return waiting();
    if (!target_.lock.empty()) TRY_VOID(start_wait());
  }
}

Result<void> SqlLeaseWaiter::cancel() {
  const auto* held = backend_.grant_of(request_.key, request_.owner);
  if (!tried_ && !held) return {};  // no request was ever sent
  if (held) backend_.forget_grant(request_.key, request_.owner);
  const std::string name = backend_.name_of(request_.key);
  const Deadline until = client_.usual_deadline();
  const int waiting = client_.end_wait(session_.get());
  const auto step = [&](SqlSession& s) -> Result<bool> {
    auto r = table_.cancel(s, name, request_.owner, waiting, until);
    if (!r && s.remedy() == Remedy::create) return false;
    return r;
  };
  Result<bool> done = fail(Errc::unavailable, "");
  if (session_ && !session_->under_way() && !session_->broken())
    done = client_.run_on<bool>(*session_, until, false, step);
  if (!done) done = client_.run<bool>(until, false, step);
  client_.drop_waiting(std::move(session_), until);
  if (!done) return fail(std::move(done.error()));
  requested_ = false;
  tried_ = false;
  target_ = {};
  return {};
}

Result<void> SqlLeaseWaiter::connect() {
  const Deadline until = client_.usual_deadline();
  if (session_ && !session_->broken()) return {};
  client_.drop(std::move(session_));
  attempt_.first = true;
  attempt_.give_up.clear();
  attempt_.row.reset();
  TRY(s, client_.writable_session(until));
  session_ = std::move(s);
  table_.adapt(*session_, client_.options());
  return table_.keep_session(*session_, request_.ttl, until);
}

Progress SqlLeaseWaiter::waiting() {
  if (!reported_ && session_ && !session_->under_way() && !session_->broken()) {
    if (const auto n =
            table_.ahead(*session_, attempt_.name, request_.owner, client_.usual_deadline()))
      last_.ahead = *n;
    reported_ = true;
  }
  return last_;
}

// The lease counts from the time before the reading on which the grant is based. If an earlier
// request was granted and its reply was lost, only the rest of that lease is left.
Progress SqlLeaseWaiter::granted(SqlLeaseDecision& out) {
  const auto& g = std::get<LockState::Granted>(out.answer);
  Duration left = request_.ttl;
  for (const auto& h : out.written.holders.list)
    if (out.held && h.owner == request_.owner)
      left = std::min<Duration>(left, Duration{h.deadline - out.now});
  Lease lease{request_.key, request_.owner, request_.mode, g.token, g.slot};
  lease.deadline = later(out.sent, left - drift(request_.ttl));
  auto& held = backend_.grants_[{request_.key.text(), request_.owner}];
  client_.drop(std::move(held.session));
  held.session = std::move(session_);
  held.written = std::move(out.written);
  requested_ = false;
  return Granted{std::move(lease)};
}

void SqlLeaseWaiter::plan(const SqlLeaseDecision& out) {
  target_ = out.target;
  last_.sent_at = out.sent;
  // Whether the target's lock is free although the target's lease is not over. If so, only time, or
  // a release by another session, can end the lease.
  const bool orphan = target_.lock.empty() || gone_ == target_.lock;
  last_.holder = out.in_the_way;
  const auto& w = std::get<LockState::Waiting>(out.answer);
  const Duration to_free = w.free_at == never ? longest_
                                              : std::clamp<Duration>(Duration{w.free_at - out.now},
                                                                     Duration{}, longest_) +
                                                    past_the_end;
  const bool wakes = table_.setup().wakes;
  if (wakes && !orphan) {
    wait_ = target_.any_of_several ? std::min(one_of_several, to_free)
            : target_.holder       ? to_free
            : out.idle             ? Duration{table_.setup().claim} + past_the_end
                                   : longest_;
    retry_at_ = {};
    return;
  }
  const bool first = target_.holder || target_.lock.empty();
  // Without a wake-up the waiter polls: soon if the row has changed, and sooner if fewer waiters
  // are ahead. If the row has not changed, it polls less and less often.
  const bool moved = std::exchange(version_, out.version) != out.version && !wakes;
  const auto place = static_cast<Duration::rep>(last_.ahead) + 1;
  idle_ =
      idle_ == Duration{} || moved ? first_idle * place : idle_ * (wakes ? 2 : 3) / (wakes ? 1 : 2);
  idle_ = std::min(idle_, first ? holder_idle : queue_idle);
  const Duration jittered =
      idle_ * (768 + request_.owner.bytes[static_cast<std::size_t>(out.now) % 16]) / 1024;
  retry_at_ = later(Clock::now(), first ? std::min(jittered, to_free) : jittered);
  target_ = {};
}

Result<std::optional<Progress>> SqlLeaseWaiter::request_over(Deadline until) {
  const bool wakes = table_.setup().wakes;
  if (!wakes && requested_ && Clock::now() >= refresh_at_) {
    TRY_VOID(table_.refresh_entry(*session_, attempt_.name, request_.owner, until));
    refresh_at_ = later(Clock::now(), Duration{table_.setup().patience / 3});
  }
  tried_ = true;
  TRY(out, table_.acquire(*session_, attempt_, until));
  requested_ = true;
  if (std::holds_alternative<LockState::Granted>(out.answer)) return std::optional{granted(out)};
  if (std::holds_alternative<LockState::Busy>(out.answer)) {
    if (table_.release_locks(*session_, attempt_.name, request_.owner, {}, true,
                             later(Clock::now(), client_.options().op_timeout)))
      client_.give_back(std::move(session_));
    return Busy{std::move(out.in_the_way), {}, out.sent};
  }
  if (!wakes) {
    TRY(n, table_.ahead(*session_, attempt_.name, request_.owner, until));
    last_.ahead = n;
  }
  plan(out);
  reported_ = !wakes;
  gone_.reset();
  return std::nullopt;
}

// The server may have closed an idle connection, and a passing error may have ended any session. In
// both cases this function repeats the request.
Result<std::optional<Progress>> SqlLeaseWaiter::request() {
  const Deadline until = client_.usual_deadline();
  for (unsigned failures = 0;; ++failures) {
    TRY_VOID(connect());
    const bool had_worked = session_->used;
    auto done = client_.run_on<std::optional<Progress>>(
        *session_, until, true, [&](SqlSession&) { return request_over(until); });
    if (done || !session_ || !session_->broken()) return done;
    const bool again = had_worked || session_->remedy() == Remedy::later;
    if (!again || failures >= 2 || Clock::now() >= until || !retryable(done.error().code))
      return done;
  }
}

Result<void> SqlLeaseWaiter::start_wait() {
  wait_began_ = Clock::now();
  return table_.listen(*session_, attempt_, target_.lock, wait_);
}

Result<bool> SqlLeaseWaiter::receive(Deadline end) {  // false: no reply yet
  const Duration patience = client_.options().op_timeout;
  const Deadline answer_by = later(wait_began_, wait_ + patience);
  auto answer = session_->receive({std::min(end, answer_by), client_.options().interrupt_fd});
  if (!answer) {
    gone_.reset();
    if (table_.may_wait_further(*session_, attempt_)) return true;
    const bool again = session_->broken() || session_->remedy() == Remedy::create;
    if (again && ++breaks_ <= 3) return true;  // request() connects again
    return fail(std::move(answer.error()));
  }
  if (!*answer) {
    if (Clock::now() < answer_by) return false;
    return fail(Errc::unavailable, "wait at {}: no answer in time", session_->where());
  }
  ++backend_.wakeups_;
  breaks_ = 0;
  TRY(waited, table_.waited(*session_, attempt_, std::move(**answer), wait_began_,
                            later(Clock::now(), patience)));
  if (waited.obtained) gone_ = target_.lock;
  attempt_.row = std::move(waited.row);
  if (Clock::now() - wait_began_ > at_once) idle_ = {};
  return true;
}

}  // namespace dlock
