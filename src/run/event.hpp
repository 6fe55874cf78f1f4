// SPDX-License-Identifier: Apache-2.0
// What happens to a lock and its job, by which Policy decides, and of which Announcer informs the
// user; and what is done about it, as Policy says: by Supervisor, Keeper and Guard.
#pragma once
#include <sys/types.h>
#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>
#include "core/clock.hpp"
#include "job/event.hpp"
#include "report/outcome.hpp"
#include "store/backend.hpp"
#include "util/fd.hpp"

namespace dlock::run {

namespace event {

// From the keeper.

// The store is asked from then on.
struct WaitBegan {
  Deadline at;
};
// For now; it will be asked again. reached: it answered that it grants nothing, such as in its
// grace after a restart; else it is unreachable, or its reply malformed.
struct NoAnswer {
  bool reached = false;
  std::string why{};
};
struct Acquired {
  std::vector<Lease> leases;  // in the order of the keys; the first has the deadline of all
  std::vector<Fd> holds{};    // duplicates of the descriptors with which the lock would end
};
struct Renewed {
  Deadline deadline;
};
// This holder was asked to stop (revoke).
struct Revoked {};
struct RenewFailed {
  std::string why;
};
// Final.
struct KeeperLost {
  std::string why{};
};
// Nothing is held: busy, unreachable, denied... An empty message: nothing to report.
struct WaitEnded {
  int status;
  bool busy;
  std::string message{};
};
// Answer to Action::leave_queue.
struct WaitLeft {};
struct ReleaseDone {
  bool confirmed;
  std::string why{};
  bool unknown = false;  // not confirmed because the store could not be reached
};
struct DetachDone {
  bool confirmed;
  std::string why{};
};

// From the guard: job/event.hpp.

// From the user and from the supervisor itself.

struct Signal {
  int number;
  bool from_kernel;
};
struct GuardGone {};
// After sweep_own: no child of the guard's tree is left.
struct OwnSweepDone {};
// Without a job: the grant was passed on, or could not be.
struct HandedOver {
  bool done;
};
// Without a job: dlock is to end like this, whether it waits or holds.
struct EndRequested {
  Outcome outcome;
};
// wake_at() has been reached.
struct Tick {};

}  // namespace event

using KeeperEvent =
    std::variant<event::WaitBegan, Waiting, event::NoAnswer, event::Acquired, event::Renewed,
                 event::Revoked, event::RenewFailed, event::KeeperLost, event::WaitEnded,
                 event::WaitLeft, event::ReleaseDone, event::DetachDone>;
using Event =
    std::variant<KeeperEvent, GuardEvent, event::Signal, event::GuardGone, event::OwnSweepDone,
                 event::HandedOver, event::EndRequested, event::Tick>;

// Whether the guard's latch is set; nothing: this is not its last message.
inline std::optional<bool> expired_at_end(const GuardEvent& e) {
  if (const auto* dead = std::get_if<event::TreeDead>(&e)) return dead->expired;
  if (const auto* left = std::get_if<event::TreeLeft>(&e)) return left->expired;
  return std::nullopt;
}

struct Action {
  enum class Do {
    start_job,       // with deadlines(), the environment and the descriptor to hold
    send_deadlines,  // deadlines() to the guard
    send_signal,     // number, to the job's group; with deadlines(), as they are after the step
    signal_all,      // number, to the whole tree
    kill_guard,      // it did not act on time: KILL it, its tree becomes ours
    // kill our own (adopted) children once; answered by OwnSweepDone when none is left
    sweep_own,
    stop_self,    // number: stop as the job was stopped; 0: do not, it goes on
    leave_queue,  // answer WaitLeft, soon
    hand_over,    // without a job: pass the grant on; answer HandedOver
    // release a late grant and wait again after `span`; answered by Acquired or WaitEnded
    queue_again,
    // Answer ReleaseDone. outcome: how the job ended, if there was one. forget_start: the start
    // noted for --once-per is withdrawn before.
    release,
    // let the lock last for `span` without us; answered by DetachDone; outcome as for release
    detach,
    say,  // note, for messages and events
    end,  // outcome: over
  };
  enum class Note {
    busy,
    silent,
    lost,
    stuck,
    descendants,
    holding,
    not_released,
    guard_died,
    no_guard,
    max_run,
    too_late,
    revoked
  };
  Do what;
  int number = 0;
  Duration span{};
  Note note{};
  Outcome outcome{};
  bool forget_start = false;
};
using Actions = std::vector<Action>;

}  // namespace dlock::run
