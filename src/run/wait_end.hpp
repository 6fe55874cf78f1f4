// SPDX-License-Identifier: Apache-2.0
// Decides when the wait for a lock is over, and whether it ends as busy or without a reply of the
// store. It is pure. Policy and the Keeper have one WaitEnd each. The WaitEnd of Policy decides,
// because Policy is on the main thread, which must act on time. The Keeper only supplies facts,
// because a client library may block its thread. The two agree because both observe the events that
// the Keeper reports.
#pragma once
#include <algorithm>
#include <optional>
#include "core/clock.hpp"
#include "run/event.hpp"

namespace dlock::run {

// How long the Keeper may take to leave the queue when the wait is over or a signal ends the wait.
// After this time dlock ends without the Keeper: the place in the queue expires by itself, and a
// grant made meanwhile expires by its ttl. dlock-run(1) promises an end within 250 ms; the other
// 50 ms are for dlock's own end.
inline constexpr Duration time_to_leave = std::chrono::milliseconds{200};

// How old the store's last reply may be when a wait ends as busy. When only this time of the wait
// is left, the Keeper asks once more.
inline constexpr Duration last_query = std::chrono::seconds{1};

class WaitEnd {
 public:
  struct Rules {
    std::optional<Duration> wait;  // nullopt: for ever; zero: one try, which ends with a reply
    Duration connect{};            // --connect-timeout
    Duration answer{};             // --op-timeout, times the number of keys
  };
  explicit WaitEnd(const Rules& rules) : rules_(rules) {}

  void begin(Deadline now) noexcept {  // only the first call counts; with -n each call counts
    if (began_ == no_deadline || one_try()) began_ = now;
  }
  void mark_reached() noexcept { reached_ = true; }
  // The store replied to a request that was sent at this time; Deadline{}: it did not reply. Only
  // after such a reply can a wait end as busy.
  void answered(Deadline sent_at) noexcept {
    answered_ = std::max(answered_, sent_at);
    reached_ |= sent_at > Deadline{};
  }
  void mark_unreachable() noexcept { answered_ = {}; }
  // The store replied that it grants nothing now: it was reached, but the lock's state is unknown.
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
  // Returns the time at which -w is over; no_deadline: there is no -w, or only one try.
  Deadline until() const noexcept { return limited() ? later(began_, *rules_.wait) : no_deadline; }
  // Returns whether the store's last reply is too old to end the wait as busy.
  bool stale() const noexcept { return answered_ < until() - last_query; }

  Deadline over_at() const noexcept {
    if (began_ == no_deadline) return no_deadline;
    if (limited()) return until();
    if (reached_ && !one_try()) return no_deadline;
    return later(began_, rules_.connect + rules_.answer);
  }
  // After an error the Keeper asks the store again only before this time.
  Deadline retried_until() const noexcept {
    return limited() || reached_ ? until() : later(began_, rules_.connect);
  }

  // Call it when the wait is over. True: the store says that the lock was busy to the end. False:
  // no reply is recent enough.
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
