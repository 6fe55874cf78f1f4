// SPDX-License-Identifier: Apache-2.0
// When the wait for a lock is over, and whether it ends busy or without an answer of the store. No
// clock, no descriptors: the main thread, which must act on time, asks here, and the keeper, which
// may hang in a client library, only supplies facts. Policy and the Keeper, on two threads, have one
// each; these agree because both follow the events that the Keeper reports.
#pragma once
#include <algorithm>
#include <optional>
#include "core/clock.hpp"
#include "run/event.hpp"

namespace dlock::run {

// The keeper's time to cancel, when the wait is over or a signal ends it: of the promised 250 ms it
// leaves some for our own end. After that dlock ends without it: its place in the queue ends by its
// patience, and a grant made meanwhile by its ttl.
inline constexpr Duration time_to_leave = std::chrono::milliseconds{200};

// The greatest age of an answer with which a wait ends busy. Within this last part of the wait the
// keeper asks once more.
inline constexpr Duration last_query = std::chrono::seconds{1};

class WaitEnd {
 public:
  struct Rules {
    std::optional<Duration> wait;  // nullopt: for ever; zero: one try, until there is an answer
    Duration connect{};            // --connect-timeout
    Duration answer{};             // --op-timeout for each key
  };
  explicit WaitEnd(const Rules& rules) : rules_(rules) {}

  void begin(Deadline now) noexcept {  // once; -n: again for each try
    if (began_ == no_deadline || one_try()) began_ = now;
  }
  void mark_reached() noexcept { reached_ = true; }  // the store answered something
  // The store answered a request sent then; Deadline{}: it did not. Only this makes an end busy.
  void answered(Deadline sent_at) noexcept {
    answered_ = std::max(answered_, sent_at);
    reached_ |= sent_at > Deadline{};
  }
  void mark_unreachable() noexcept { answered_ = {}; }  // the store is unreachable at the moment
  // It answered that it grants nothing now: the lock's state is unknown, but the store was reached.
  void mark_in_grace() noexcept {
    answered_ = {};
    reached_ = true;
  }

  void observe(const KeeperEvent& e) noexcept {
    if (const auto* wait = std::get_if<event::WaitBegan>(&e)) begin(wait->at);
    if (const auto* waiting = std::get_if<event::StillWaiting>(&e))
      answered(waiting->reply.sent_at);
    if (const auto* none = std::get_if<event::NoAnswer>(&e))
      none->reached ? mark_in_grace() : mark_unreachable();
    if (std::holds_alternative<event::Acquired>(e)) mark_reached();
  }

  Deadline began() const noexcept { return began_; }
  bool reached() const noexcept { return reached_; }
  // The end of -w; no_deadline: there is none, or it is one try.
  Deadline until() const noexcept { return limited() ? later(began_, *rules_.wait) : no_deadline; }
  // The store's last answer is too old to end the wait with.
  bool stale() const noexcept { return answered_ < until() - last_query; }

  Deadline over_at() const noexcept {
    if (began_ == no_deadline) return no_deadline;
    if (limited()) return until();
    if (reached_ && !one_try()) return no_deadline;
    return later(began_, rules_.connect + rules_.answer);
  }
  // After an error the store is asked again before this only.
  Deadline retried_until() const noexcept {
    return limited() || reached_ ? until() : later(began_, rules_.connect);
  }

  // Of a wait that is over: true: it was busy to the end, as far as the store says; false: there is
  // no recent answer.
  bool busy() const noexcept {
    constexpr auto rounding = std::chrono::milliseconds{1};
    return limited() && answered_ >= over_at() - last_query - rounding;
  }

 private:
  bool one_try() const noexcept { return rules_.wait == Duration{}; }
  bool limited() const noexcept { return rules_.wait > Duration{}; }  // -w

  Rules rules_;
  Deadline began_ = no_deadline;
  Deadline answered_{};
  bool reached_ = false;
};

}  // namespace dlock::run
