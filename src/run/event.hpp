// SPDX-License-Identifier: Apache-2.0
// The events and actions that the parts of a run exchange. An event says what happened to a lock or
// to its job. Policy decides by events, and Announcer shows them to the user. Policy returns
// actions, which Supervisor, Keeper and Guard carry out. Events and actions are values. The events
// of the Keeper pass from its thread to the main thread.
#pragma once
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

// The Keeper begins to ask the store.
struct WaitBegan {
  Deadline at;
};
// The store replied that this owner waits, or a reply is overdue (Waiting::sent_at).
struct StillWaiting {
  Waiting reply;
};
// The store gave no usable reply, and the Keeper asks it again. If `reached` is set, the store
// replied that it grants nothing now, for example in its grace period after a restart. Otherwise
// the store is unreachable, or its reply is malformed.
struct NoAnswer {
  bool reached = false;
  std::string why{};
};
struct Acquired {
  std::vector<Lease> leases;  // in the order of the keys; the first has the earliest deadline
  std::vector<Fd> holds{};    // duplicates of the descriptors whose last close ends the lock
};
struct Renewed {
  Deadline deadline;
};
// Somebody asked this holder to stop (release --revoke).
struct Revoked {};
struct RenewFailed {
  std::string why;
};
// The store says that the lock is lost. This is final.
struct KeeperLost {
  std::string why{};
};
// The wait ended without a lock: busy, unreachable, denied... If `message` is empty, dlock prints
// none.
struct WaitEnded {
  int status;
  bool busy;
  std::string message{};
};
// The Keeper has left the queue, as action::LeaveQueue ordered.
struct WaitLeft {};
struct ReleaseDone {
  bool confirmed;
  std::string why{};
  bool unknown = false;  // the store did not reply, so the outcome is unknown
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
// The result of action::SweepOwn: no child of the dead guard's tree is left.
struct OwnSweepDone {};
// The result of action::HandOver, without a job: whether the grant was passed on.
struct HandedOver {
  bool done;
};
// Without a job: while dlock waits or holds, somebody asks it to end with this outcome.
struct EndRequested {
  Outcome outcome;
};
// Policy::wake_at() has passed.
struct Tick {};

}  // namespace event

using KeeperEvent =
    std::variant<event::WaitBegan, event::StillWaiting, event::NoAnswer, event::Acquired,
                 event::Renewed, event::Revoked, event::RenewFailed, event::KeeperLost,
                 event::WaitEnded, event::WaitLeft, event::ReleaseDone, event::DetachDone>;
using Event =
    std::variant<KeeperEvent, GuardEvent, event::Signal, event::GuardGone, event::OwnSweepDone,
                 event::HandedOver, event::EndRequested, event::Tick>;

// Returns whether the lease expired, if this is the guard's last message; else nullopt.
inline std::optional<bool> expired_at_end(const GuardEvent& e) {
  if (const auto* dead = std::get_if<event::TreeDead>(&e)) return dead->expired;
  if (const auto* left = std::get_if<event::TreeLeft>(&e)) return left->expired;
  return std::nullopt;
}

// What Policy announces to the user. Announcer prints it.
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

namespace action {

// The Supervisor passes these to the guard.

// Start the job, with Policy::deadlines(), the environment and the descriptors whose last close
// would end the lock.
struct StartJob {};
// Send Policy::deadlines(), as they are after Policy::step(). SendSignal and SignalTree carry the
// deadlines, too.
struct SendDeadlines {};
// Signal the job's process group.
struct SendSignal {
  int signal;
};
// Signal every member of the job's tree.
struct SignalTree {
  int signal;
};

// The Supervisor carries these out.

// Kill the guard, which did not act on time. The job dies with it, and dlock inherits the tree.
struct KillGuard {};
// Kill the inherited children once. OwnSweepDone follows when none is left.
struct SweepOwn {};
// Stop dlock, because the job was stopped.
struct StopSelf {
  int signal;
};
// The job goes on: cancel a stop of dlock that has not happened yet.
struct CancelStop {};
// Without a job: pass the grant on. HandedOver follows.
struct HandOver {};
struct Announce {
  Note note;
};
// End dlock with this outcome.
struct End {
  Outcome outcome;
};

// The Keeper carries these out on its own thread (Keeper::post).

// WaitLeft follows soon.
struct LeaveQueue {};
// Release a grant that came too late, and wait again after the pause. Acquired or WaitEnded
// follows.
struct QueueAgain {
  Duration pause{};
};
// ReleaseDone follows.
struct Release {
  Outcome outcome{};          // how the job ended, if there was a job
  bool forget_start = false;  // first withdraw the start that was recorded for --once-per
};
// Let the lock last for `span` without dlock. DetachDone follows.
struct Detach {
  Duration span{};
  Outcome outcome{};          // as for Release
  bool forget_start = false;  // as for Release
};

}  // namespace action

using KeeperAction =
    std::variant<action::LeaveQueue, action::QueueAgain, action::Release, action::Detach>;
using Action =
    std::variant<action::StartJob, action::SendDeadlines, action::SendSignal, action::SignalTree,
                 action::KillGuard, action::SweepOwn, action::StopSelf, action::CancelStop,
                 action::HandOver, action::Announce, action::End, KeeperAction>;
using Actions = std::vector<Action>;

}  // namespace dlock::run
