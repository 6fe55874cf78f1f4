// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "redlock/redlock_backend.hpp"

namespace dlock::redlock {
namespace {

using namespace std::chrono_literals;

constexpr unsigned most_unanswered = 3;  // tries in one poll without a known outcome
// How many times the pause doubles if such tries follow each other: up to 6.4 s at the default ttl.
// If too many waiters ask at once, the masters can reply in time only if the waiters then ask less
// often.
constexpr unsigned most_doublings = 5;
constexpr Duration check_anyway = 2s;  // the pause if the holder is a dlock, which wakes us
constexpr Duration together = 5ms;     // time within which the wake-ups of a majority arrive
constexpr auto go_on = std::nullopt;   // the result of a step that has not ended the poll

// Returns a random time between half of `d` and `d`.
Duration some_of(Duration d) {
  return d / 2 + d * static_cast<long>(Owner::random().bytes[0]) / 512;
}

// Tries to take the lock. Between two tries, it sleeps in BLPOP on a list at each master, over
// separate connections. A release wakes one waiter there. The waiter also tries without a wake-up
// after a while, because other programs wake no waiter, and because a waiter that was woken may
// have died.
class RedlockWaiter final : public Waiter {
 public:
  RedlockWaiter(RedlockBackend& backend, const Request& request)
      : backend_(backend), request_(request), owner_(request.owner) {}
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  using Step = Result<std::optional<Progress>>;
  Step try_once(Deadline end);
  Step in_grace(Deadline end, Wait);
  Step unanswered(Deadline end, const std::string& why);
  void sleep(Deadline until);
  Duration pause(const Attempt&);

  RedlockBackend& backend_;
  const Request request_;
  Owner owner_;  // of the next attempt
  std::unique_ptr<Masters> listeners_;
  std::vector<bool> woken_;
  std::optional<Owner> granted_;
  Deadline next_{};
  unsigned tries_ = 0, unanswered_ = 0;
  unsigned silent_ = 0;  // tries since the last try with a known outcome
  Error silence_{Errc::timed_out, ""};
  Waiting last_;
};

Result<Progress> RedlockWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  unanswered_ = 0;
  last_.sent_at = {};
  for (bool first = true;; first = false) {
    // A slice of zero means one try now. No other slice, however short, shortens the interval
    // between tries.
    if (!(first && slice <= Duration{}) && Clock::now() < next_) {
      const Deadline until = std::min(end, next_);
      if (silent_ > 0) wait_for(-1, 0, {until, backend_.options().interrupt_fd});
      else sleep(until);
      // After tries without a known outcome, last_ is too old to be returned.
      if (Clock::now() < next_ && silent_ > 0) return fail(silence_);
      if (Clock::now() < next_) return Progress{last_};
    }
    TRY(step, try_once(end));
    if (step) return std::move(*step);
  }
}

RedlockWaiter::Step RedlockWaiter::try_once(Deadline end) {
  Masters& m = backend_.masters();
  const Options& options = backend_.options();
  const Wait wait{later(Clock::now(), options.connect_timeout), options.interrupt_fd};
  TRY_VOID(m.gather(wait.until, node_patience(request_.ttl), false));
  backend_.in_grace = false;
  if (m.voting() < m.majority()) return in_grace(end, wait);

  const Deadline sent = Clock::now();
  Attempt made = backend_.attempt(request_, owner_);
  ++tries_;
  if (made.undone) owner_ = Owner::random();
  if (made.refused) return fail(std::move(*made.refused));
  if (made.lease) {
    backend_.gave(request_.ttl);
    granted_ = made.lease->owner;
    listeners_.reset();
    return Progress{Granted{std::move(*made.lease)}};
  }
  if (made.unanswered) return unanswered(end, made.why);
  silent_ = 0;
  if (!request_.wait) return Progress{Busy{std::move(made.holder), std::move(made.why), sent}};
  next_ = later(Clock::now(), pause(made));
  last_ = Waiting{0, std::move(made.holder), std::move(made.why), sent};
  if (Clock::now() >= end) return Progress{last_};
  return go_on;
}

// Waits for the end of the grace period, or fails if less than a majority is ready.
RedlockWaiter::Step RedlockWaiter::in_grace(Deadline end, Wait wait) {
  const Masters& m = backend_.masters();
  if (request_.wait && wait.interrupted()) return Progress{last_};
  if (m.ready() < m.majority()) return fail(m.too_few());
  backend_.in_grace = true;
  const Duration left = m.grace_left();
  std::string why = fmt::format(
      "{} of {} masters restarted less than {} ago and may have forgotten a vote; grants resume in "
      "{}; ?restart_grace=0 if these servers never forget (dlock-redlock(7))",
      m.ready() - m.voting(), m.size(), format_duration(backend_.options().restart_grace),
      format_duration(left));
  if (!request_.wait) return fail(Errc::unavailable, std::move(why));
  last_ = Waiting{0, std::nullopt, std::move(why)};
  wait_for(-1, 0, {std::min(end, later(Clock::now(), left)), wait.interrupt_fd});
  if (Clock::now() >= end || wait.interrupted()) return Progress{last_};
  return go_on;
}

RedlockWaiter::Step RedlockWaiter::unanswered(Deadline end, const std::string& why) {
  next_ = later(Clock::now(), some_of(node_patience(request_.ttl) * (1U << silent_)));
  silent_ = std::min(silent_ + 1, most_doublings);
  silence_.message = fmt::format("acquire at {}: no majority answered in time{}{}",
                                 backend_.where(), why.empty() ? "" : ": ", why);
  if (++unanswered_ >= most_unanswered) return fail(silence_);
  if (!request_.wait) wait_for(-1, 0, {next_, backend_.options().interrupt_fd});
  else if (Clock::now() >= end) return fail(silence_);
  return go_on;
}

Duration RedlockWaiter::pause(const Attempt& made) {
  // The votes were split, or the lock has just ended: try soon, but not all waiters at the same
  // time.
  if (made.free_in == Duration{})
    return some_of(std::min<Duration>(2ms * (1U << std::min(tries_, 6U)), 50ms));
  // with the quarter that is added below, at most a third of the ttl
  const Duration anyway = std::min<Duration>(check_anyway, request_.ttl * 4 / 15);
  Duration about = made.foreign ? (tries_ < 20 ? 100ms : 500ms) : anyway;
  if (made.free_in) about = std::min<Duration>(about, *made.free_in + 1ms + some_of(3ms));
  return made.free_in && about < anyway / 2 ? about : some_of(about) + about / 4;
}

// Sleeps until `until`, or until masters report a release. Then the next try is due at once.
void RedlockWaiter::sleep(Deadline until) {
  if (!listeners_) {
    listeners_ =
        std::make_unique<Masters>(backend_.options(), backend_.credentials(), backend_.requests);
    woken_.assign(listeners_->size(), false);
  }
  const Call listen{nullptr, {}, {"BLPOP", backend_.names(request_.key).wake, "0"}};
  const auto wake = [&](std::size_t i, const Response& h) {
    if (!h.reply || !h.reply->is(Reply::Type::array)) return;
    ++backend_.wakeups;
    woken_[i] = true;
  };
  Deadline due = no_deadline;  // until then, wait for the other masters to report the release
  while (Clock::now() < until) {
    for (Node& n : listeners_->nodes()) {
      n.connect();
      if (n.ready() && n.idle()) n.send(listen, listeners_->next_number());
    }
    if (!listeners_->receive(std::min({until, due, later(Clock::now(), 1s)}), wake, true)) return;
    const auto woken = static_cast<std::size_t>(std::ranges::count(woken_, true));
    if (woken >= listeners_->majority() || Clock::now() >= due) {
      woken_.assign(woken_.size(), false);
      next_ = Clock::now();
      return;
    }
    if (woken > 0) due = std::min(due, later(Clock::now(), together));
  }
}

Result<void> RedlockWaiter::cancel() {
  listeners_.reset();
  // Votes of failed attempts are being released already, but a grant that poll() returned is not.
  if (granted_) {
    TRY_VOID(backend_.release({request_.key, *granted_}, std::nullopt));
  } else if (tries_ > 0) {  // Give outstanding messages a moment to be sent.
    backend_.masters().pause(later(Clock::now(), 1ms));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Waiter>> RedlockBackend::enqueue(const Request& request) {
  TRY_VOID(can_serve(traits(), request));
  TRY_VOID(redis::within_grace({request.ttl}, options_.restart_grace));
  return std::make_unique<RedlockWaiter>(*this, request);
}

}  // namespace dlock::redlock
