// SPDX-License-Identifier: Apache-2.0
// The part of Keeper about the queue: from enqueue() to a grant, or to the end of the wait.
#include <fcntl.h>
#include <fmt/format.h>
#include <algorithm>
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "report/announcer.hpp"
#include "run/keeper.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

constexpr int most_tries_to_record = 100;

template <class Call>
auto twice(Call call) {
  auto answer = call();
  return !answer && retryable(answer.error().code) ? call() : answer;
}

}  // namespace

void Keeper::enqueue() {
  queued_ = false;
  output_.trace_attempt(attempt_.owner);
  auto queued = backend_->enqueue(attempt_);
  if (queued) waiter_ = std::move(*queued);
  else fail_wait(queued.error());
}

void Keeper::accept(const Granted& granted) {
  std::vector<Fd> holds;
  const auto hold = [&](int fd) {
    return fd < 0 || holds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  };
  const bool all = hold(granted.hold_fd) && std::ranges::all_of(granted.more_holds, hold);
  waiter_.reset();
  if (!all) {
    (void)backend_->release(granted.lease);
    return fail_wait({Errc::unavailable, "out of descriptors for the guard"});
  }
  if (plan_.once_per && !note_start(granted.lease)) return;
  lease_ = granted.lease;
  alarm_fd_ = granted.alarm_fd;
  // Set the time before the report: if the machine is suspended after the report, the renewal is
  // due when the machine wakes up.
  renew_at_ = next_renewal(plan_.timing, lease_->deadline, Clock::now());
  output_.trace_granted(*lease_);
  std::vector<Lease> leases = granted.more_leases;
  leases.insert(leases.begin(), *lease_);
  report(event::Acquired{std::move(leases), std::move(holds)});
}

// Records the start for --once-per, after the grant and before the job starts. False: nothing may
// start; dlock has tried to release the lock, and an event says why. Other holders (readers,
// permits, nested runs) may record a start between our two requests: then dlock reads the starts
// and decides again.
// If it is unknown whether the store has our record, dlock withdraws the record and starts nothing.
// If the withdrawal fails, too, the record may stay, and then no job starts in this period.
bool Keeper::note_start(const Lease& lease) {
  const auto refused = [&](int status, const std::string& why, bool busy) {
    (void)twice([&] { return backend_->release(lease); });
    output_.trace(busy ? "fail" : "info", "acquire");
    finish(event::WaitEnded{status, busy, why});
    return false;
  };
  Error error{Errc::unavailable, "other runs keep noting starts"};
  for (int tries = 0; tries < most_tries_to_record; ++tries) {
    const auto known = twice([&] { return backend_->starts(lease.key); });
    if (!known) {
      error = known.error();
      break;
    }
    RunStarts starts = *known;
    // An earlier try recorded a start, but started no command: ignore that record.
    if (recorded_start_ && starts.last == recorded_start_->is) starts.last = recorded_start_->was;
    const bool due = plan_.again || plan_.once_per->due(starts);
    const Duration ahead = OncePer::ahead(starts);
    if (!due && ahead == 0us)
      return refused(plan_.conflict_status, output_.started_line(starts), true);
    // Part of `until` is random, so that no two holders write the same record. Otherwise, if
    // another holder made its change first, a repeat of our change could take that holder's record
    // for ours.
    const auto keep = plan_.once_per->retention().count();
    const RunStart mine{
        starts.now,
        starts.now + keep + ::rand_r(&seed_) % std::clamp<std::int64_t>(keep / 10, 1, 1'000'000)};
    const auto done = twice([&] { return backend_->note_start(lease, {known->last, mine}); });
    const bool noted = done && *done == UpdateResult::yes;
    if (!due) {
      const auto record = noted ? Output::Record::corrected : Output::Record::as_it_was;
      return refused(plan_.conflict_status, output_.started_ahead_line(starts, record), true);
    }
    // With --again, a withdrawal must not restore a start in the future (OncePer::ahead).
    recorded_start_ = {ahead > 0us ? mine : starts.last, mine};
    if (noted) return true;
    (void)withdraw_start(lease);
    if (done && *done == UpdateResult::other_start) continue;
    error = done ? Error{Errc::unavailable, "the lock ended before the start could be noted"}
                 : done.error();
    break;
  }
  return refused(exit_status(error.code),
                 fmt::format("--once-per: {}; nothing was started", error.message), false);
}

// Withdraws our start. Returns an empty string, or why the start may still count. If the start may
// still be recorded, recorded_start_ stays, so that the next try ignores that start.
std::string Keeper::withdraw_start(const Lease& lease) {
  if (!recorded_start_) return {};
  const auto done = backend_->note_start(lease, {recorded_start_->is, recorded_start_->was});
  if (!done) return done.error().message;
  if (*done == UpdateResult::not_held) return "the lock has ended";
  recorded_start_.reset();
  return *done == UpdateResult::yes ? "" : "another start was noted since";
}

// Withdraws the start of a command that was not started, or failed. If the store does not confirm
// this, the start may stay recorded and count for its period; a message says so.
void Keeper::forget_recorded_start(const Lease& lease) {
  const std::string why = withdraw_start(lease);
  if (why.empty()) return;
  output_.error(
      fmt::format("{}: the start could not be withdrawn ({}); it may count for --once-per {}",
                  output_.key(), printable(why), plan_.once_per->text()));
}

// Ends the wait: nothing is held.
void Keeper::fail_wait(const Error& e) {
  finish(event::WaitEnded{exit_status(e.code), false, e.message});
}

// Ends the wait after one try, or after an error that a retry does not fix.
void Keeper::give_up_wait(const Error& e) {
  // If the store was never reached, there is nothing to undo. Otherwise try once to undo the
  // request. If that fails, what stays in the store expires by its ttl.
  const bool unknown = e.code == Errc::timed_out || e.code == Errc::protocol;
  // With several keys, the first key may be held although the second caused the error.
  if (wait_.reached() || unknown || plan_.several()) (void)waiter_->cancel();
  output_.trace("info", "acquire");
  fail_wait(e);
}

void Keeper::end_busy(const Busy& busy) {
  if (busy.sent_at == Deadline{}) return fail_wait({Errc::unavailable, busy.why});
  output_.trace("fail", "acquire");
  const Waiting last{.holder = busy.holder, .why = busy.why, .key = busy.key};
  finish(event::WaitEnded{plan_.conflict_status, true, output_.busy_line(last)});
}

// Ends the wait because of --max-waiters. If the cancellation fails, the entry in the queue expires
// by itself.
void Keeper::end_crowded(const Waiting& last) {
  (void)twice([&] { return waiter_->cancel(); });
  output_.trace("fail", "acquire");
  finish(event::WaitEnded{plan_.conflict_status, true, output_.crowded_line(last)});
}

// Asks the store shortly before the end of the wait. The reply shows that the store is reachable,
// and who holds the lock. A waiter that sleeps in the queue gets no such reply.
Result<Progress> Keeper::inspect_key(Waiting last) {
  last.sent_at = Clock::now();
  const auto view = backend_->inspect(plan_.request.key);
  if (!view && retryable(view.error().code)) return fail(view.error());
  if (view && *view && !(*view)->unknown_reason.empty())
    return fail(Errc::unavailable, (*view)->unknown_reason);
  if (view) last.holder.reset();
  if (view && *view && !(*view)->holders.empty() && !(*view)->holders.front().ended())
    last.holder = (*view)->holders.front();
  return last;
}

void Keeper::acquire() {
  if (!waiter_) enqueue();
  if (over_) return;
  const Deadline began = Clock::now();
  Duration retry = first_retry;
  std::optional<Waiting> last;  // the last reply since the last error
  std::string why;              // the error that was reported last

  for (bool tried = false;; tried = true) {
    const Duration left = until(wait_.until());
    const bool inspects = last && !health_.in_grace_period && left <= last_query && wait_.stale();
    if (is_to_leave()) {
      if (inspects && left <= 0us)  // a suspend skipped the last second of the wait
        if (auto seen = inspect_key(*last))
          report(event::StillWaiting{std::get<Waiting>(*std::move(seen))});
      (void)twice([&] { return waiter_->cancel(); });
      return finish(event::WaitLeft{});
    }
    if (left <= 0us && tried) {  // the main thread will end the wait
      nap(time_to_leave);
      continue;
    }
    auto answer =
        inspects ? inspect_key(*last) : waiter_->poll(slice(left, Clock::now() - began, last));
    if (!inspects) read_health();
    if (!answer) {
      const Error& e = answer.error();
      if (!retryable(e.code) || plan_.one_try()) return give_up_wait(e);
      // The last try may have had no time left. Then the error before it explains more.
      if (!plan_.wait && Clock::now() >= wait_.retried_until())
        return give_up_wait({e.code, why.empty() ? e.message : why});
      wait_.mark_unreachable();
      // An earlier reply does not count while the store fails. But if the error came after the end
      // of the wait, because the machine was suspended, keep the reply: dlock needs it to ask the
      // store once more before it leaves.
      if (until(wait_.until()) > 0us) last.reset();
      // If a request to leave interrupted this exchange, an earlier error explains more.
      if (!requested() || why.empty()) {
        why = e.message;
        report(event::NoAnswer{.reached = false, .why = why});
      }
      nap(std::min(jitter(retry), std::max<Duration>(until(wait_.retried_until()), 0us)));
      retry = std::min(retry * 2, last_retry);
      continue;
    }
    retry = first_retry;
    if (const auto* granted = std::get_if<Granted>(&*answer)) {
      if (is_to_leave()) {
        (void)twice([&] { return backend_->release(granted->lease); });
        return finish(event::WaitLeft{});
      }
      return accept(*granted);
    }
    if (const auto* busy = std::get_if<Busy>(&*answer)) return end_busy(*busy);
    last = std::move(std::get<Waiting>(*answer));
    if (!health_.in_grace_period && !std::exchange(queued_, true)) {
      output_.trace("queued", "acquire");
      if (plan_.max_waiters && last->ahead >= static_cast<std::size_t>(*plan_.max_waiters))
        return end_crowded(*last);
    }
    if (health_.in_grace_period) {  // the store does not know whether the lock is held
      last->sent_at = {};
      report(event::NoAnswer{.reached = true, .why = last->why});
    }
    report(event::StillWaiting{*last});
  }
}

// Returns how long the next poll may sleep. The sleep ends when the Keeper must report the current
// state: first when the first report is due, and after that when the user's next line is due. The
// sleep also ends before the last query, and before the end of a short wait. Each report costs one
// request per waiter. So on a terminal a report comes each second, but in a log only when the next
// line is due.
Duration Keeper::slice(Duration left, Clock::duration waited,
                       const std::optional<Waiting>& last) const {
  if (plan_.one_try() || (plan_.max_waiters && !last)) return {};
  const Duration before_query = left > last_query ? left - last_query : last ? left : left / 2;
  Duration due = quiet_report;
  const auto at = [&](Duration t) {
    if (waited < t) due = std::min(due, std::chrono::ceil<Duration>(t - waited));
  };
  if (waited < first_report) at(first_report);
  else if (!last) due = first_report;
  else if (redraws(plan_)) due = redrawn_report;
  else if (!plan_.output.quiet)
    for (const Duration line : repeat_times) at(line);
  // A store in its grace period changes its reply soon.
  if (health_.in_grace_period) due = std::min<Duration>(due, redrawn_report);
  return std::clamp<Duration>(before_query, 0us, due);
}

}  // namespace dlock::run
