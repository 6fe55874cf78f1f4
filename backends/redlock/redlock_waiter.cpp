// SPDX-License-Identifier: Apache-2.0
#include "redlock/redlock_waiter.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"

namespace dlock::redlock {
namespace {

using namespace std::chrono_literals;

constexpr unsigned most_unanswered = 3;  // tries in one poll with an unknown outcome
// Of the pause after each of them in a row, up to 6.4 s at the default ttl: masters that were asked
// by too many at once never answer in time if all of these ask again at the same rate.
constexpr unsigned most_doublings = 5;
constexpr Duration look_anyway = 2s;  // the holder is a dlock, which wakes us
constexpr Duration together = 5ms;    // time within which the wake-ups of a majority arrive
constexpr auto go_on = std::nullopt;  // of a step

// Between a half and the whole.
Duration some_of(Duration d) {
  return d / 2 + d * static_cast<long>(Owner::random().bytes[0]) / 512;
}

}  // namespace

Result<Progress> RedlockWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  unanswered_ = 0;
  for (bool first = true;; first = false) {
    // A slice of zero is one try; other slices keep the pace, however short they are.
    if (!(first && slice <= Duration{}) && Clock::now() < next_) {
      const Deadline until = std::min(end, next_);
      if (silent_ > 0) wait_for(-1, 0, {until, backend_.options().interrupt_fd});
      else sleep(until);
      // what was known before is no answer
      if (Clock::now() < next_ && silent_ > 0) return fail(silence_);
      if (Clock::now() < next_) return Progress{last_};
    }
    TRY(step, try_once(end));
    if (step) return std::move(*step);
  }
}

Result<std::optional<Progress>> RedlockWaiter::try_once(Deadline end) {
  Masters& m = backend_.masters();
  const Options& options = backend_.options();
  const Wait wait{later(Clock::now(), options.connect_timeout), options.interrupt_fd};
  const Duration ttl = request_.ttl;
  TRY_VOID(m.gather(wait.until, node_patience(ttl), false));
  backend_.in_grace = false;
  if (m.voting() < m.majority()) {
    if (request_.wait && wait.interrupted()) return Progress{last_};
    if (m.ready() < m.majority()) return fail(m.too_few());
    backend_.in_grace = true;
    const Duration left = m.grace_left();
    std::string why = fmt::format(
        "{} of {} masters restarted less than {} ago and may have forgotten a vote; grants resume "
        "in {}; ?restart_grace=0 if these servers never forget (dlock-redlock(7))",
        m.ready() - m.voting(), m.size(), format_duration(options.restart_grace),
        format_duration(left));
    if (!request_.wait) return fail(Errc::unavailable, std::move(why));
    last_ = Waiting{0, std::nullopt, std::move(why)};
    wait_for(-1, 0, {std::min(end, later(Clock::now(), left)), wait.interrupt_fd});
    if (Clock::now() >= end || wait.interrupted()) return Progress{last_};
    return go_on;
  }

  Attempt made = backend_.attempt(request_, owner_);
  ++tries_;
  if (made.undone) owner_ = Owner::random();
  if (made.refused) return fail(std::move(*made.refused));
  if (made.lease) {
    backend_.gave(ttl);
    granted_ = made.lease->owner;
    ears_.reset();
    return Progress{Granted{std::move(*made.lease)}};
  }
  if (made.unanswered) {
    next_ = later(Clock::now(), some_of(node_patience(request_.ttl) * (1U << silent_)));
    silent_ = std::min(silent_ + 1, most_doublings);
    silence_ = {Errc::timed_out,
                fmt::format("acquire at {}: no majority answered in time{}{}", backend_.where(),
                            made.why.empty() ? "" : ": ", made.why)};
    if (++unanswered_ < most_unanswered) {
      if (!request_.wait) wait_for(-1, 0, {next_, wait.interrupt_fd});
      if (!request_.wait || Clock::now() < end) return go_on;
    }
    return fail(silence_);
  }
  silent_ = 0;
  if (!request_.wait) return Progress{Busy{std::move(made.holder), std::move(made.why)}};
  next_ = later(Clock::now(), pause(made));
  last_ = Waiting{0, std::move(made.holder), std::move(made.why)};
  if (Clock::now() >= end) return Progress{last_};
  return go_on;
}

Duration RedlockWaiter::pause(const Attempt& made) {
  // A split vote, or a lock that ended meanwhile: soon, but not all at once.
  if (made.free_in == Duration{})
    return some_of(std::min<Duration>(2ms * (1U << std::min(tries_, 6U)), 50ms));
  Duration about = made.foreign ? (tries_ < 20 ? 100ms : 500ms) : look_anyway;
  if (made.free_in) about = std::min<Duration>(about, *made.free_in + 1ms + some_of(3ms));
  return made.free_in && about < look_anyway / 2 ? about : some_of(about) + about / 4;
}

// Until `until`, or until masters report a release: then it is tried at once.
void RedlockWaiter::sleep(Deadline until) {
  if (!ears_) {
    ears_ =
        std::make_unique<Masters>(backend_.options(), backend_.credentials(), backend_.requests);
    listening_.assign(ears_->size(), false);
    woken_.assign(ears_->size(), false);
  }
  Deadline first_told = no_deadline;
  while (Clock::now() < until) {
    for (std::size_t i = 0; i < ears_->size(); ++i) {
      Node& n = ears_->nodes()[i];
      n.connect();
      if (!n.ready() || listening_[i]) continue;
      n.send(Ask{nullptr, {}, {"BLPOP", names_.wake, "0"}}, ears_->next_number());
      listening_[i] = true;
    }
    const bool told = first_told != no_deadline;
    const Deadline limit = std::min(
        {until, told ? later(first_told, together) : no_deadline, later(Clock::now(), 1s)});
    const bool uninterrupted = ears_->hear(
        limit,
        [&](std::size_t i, const Heard& h) {
          if (h.number == 0) return true;  // connected, or not
          listening_[i] = false;
          if (!h.reply || !h.reply->is(Reply::Type::array)) return true;
          ++backend_.wakeups;
          woken_[i] = true;
          return true;
        },
        true);
    if (!uninterrupted) return;
    const auto tellers = static_cast<std::size_t>(std::count(woken_.begin(), woken_.end(), true));
    if (tellers > 0 && !told) first_told = Clock::now();
    if (tellers >= ears_->majority() || (told && Clock::now() >= later(first_told, together))) {
      woken_.assign(woken_.size(), false);
      next_ = Clock::now();
      return;
    }
  }
}

Result<void> RedlockWaiter::cancel() {
  ears_.reset();
  // Leftovers of attempts are being released already; a returned grant is not.
  if (granted_) {
    TRY_VOID(backend_.release({request_.key, *granted_}, std::nullopt));
  } else if (tries_ > 0) {  // and outstanding messages get a moment to be sent
    backend_.masters().hear(
        later(Clock::now(), 1ms), [](std::size_t, const Heard&) { return false; }, false);
  }
  return {};
}

}  // namespace dlock::redlock
