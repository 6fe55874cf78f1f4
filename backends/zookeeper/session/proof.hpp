// SPDX-License-Identifier: Apache-2.0
// Computes until when a session is proven to be alive. The server's "connected" proves nothing: a
// follower that is cut off together with its client continues to answer pings and reads, while the
// leader's clock for the session runs out.
//
// What the servers do (3.5 to 3.9): Only the leader ends sessions, at the earliest `timeout` after
// it last touched them. The leader touches a session when the session is created or resumed, and
// when a follower's answer to a ping names the session. A request that a follower passes on does
// not touch the session. The leader pings its followers every half tick. A follower's answer names
// every session from which the follower has received data since its last answer. Pings, commits and
// the replies to requests go from the leader to each follower in one ordered stream. Answers to
// pings, and requests, go from the follower to the leader in another ordered stream. A new leader
// gives every session its whole timeout, which begins after the last commit of the old leader.
//
// The proof takes three requests of one connection: j, i and k. Each has its reply. i and k are
// writes. i was sent at least half a tick after the reply to j. k was sent at any time after the
// reply to i. When the reply to k arrives, the following is true:
//   1. The follower had received data from us when it replied to j. So it names us in its answer to
//      the next ping, if no answer has named us since that data arrived.
//   2. After the reply to j and before the commit of i, the leader sent a ping, because half a tick
//      had passed between that reply and the sending of i.
//   3. So the follower had answered that ping when it replied to i, and it passed on k after that
//      answer.
//   4. So when the leader received k, it had touched our session because of data of j or later. The
//      touch was not before j was sent.
//   5. k was committed, so this leader was the leader when it received k. A later leader counts
//      from a later time.
// So the session is alive until `j sent + timeout`, minus drift. If the session was created or
// resumed by a request that was sent at `sent`, and k was sent after the reply to that request,
// then k proves `sent + timeout` in the same way: the leader itself touches the session when it is
// created or resumed, and the commit proves that it was the leader.
//
// The proof assumes nothing about delays in the network, in one direction or both, and nothing
// about stops of the follower or the client. It assumes:
//   A. Clocks differ by less than drift.
//   B. If a ping is due, the leader sends it before a later write has been to a majority and back.
//      So the leader may stop for any time (collecting garbage, SIGSTOP, a suspended machine). But
//      it must not stop again between the moment it continues and the moment it sends the ping.
//   C. The tick is at most half the timeout or, with `?tick=`, what the URL says.
//   D. Followers and observers get their data from the leader itself, not by `observerMasterPort`.
//
// One write is not enough. In the half tick before the write, the leader may have stopped, or its
// pings may have come late. So the newest touch may be much older. The leader would still commit
// the write, and end the session afterwards.
#pragma once
#include <vector>
#include "core/clock.hpp"

namespace dlock::zookeeper {

class Proof {
 public:
  // tick 0: unknown. Then the tick is assumed to be half of the timeout. A server with default
  // limits allows the timeout only if its tick is not longer than that.
  explicit Proof(Duration tick) : tick_(tick) {}

  // The session was created, or resumed, by a request sent at `sent`. The proof begins again.
  void attached(Deadline sent, Deadline answered, Duration timeout);
  void note_answer(Deadline sent, Deadline answered);  // the server answered a request
  void committed(Deadline sent, Deadline answered);    // a write was committed
  Deadline until() const noexcept { return until_; }

 private:
  struct Answered {
    Deadline sent, answered;
  };
  void note(Deadline touch) noexcept;

  Duration tick_, timeout_{};
  Deadline until_{};
  Answered attached_{};
  // Candidates for j, in ascending order; some of those that are close together are left out. They
  // reach as far back as a later write may need.
  std::vector<Answered> answers_;
  // Candidates for i, in ascending order. Here `sent` is the time when j was sent.
  std::vector<Answered> waiting_;
};

// Returns how old the reply to j must be when i is sent. tick 0: unknown.
Duration half_tick(Duration timeout, Duration tick) noexcept;

// Returns L (run/timing.hpp): each renewal proves that the lock is held for at least this time, if
// renewals are L/3 apart. The session lasts for ttl and lock-delay together, and the deadline is
// the proven end minus the lock-delay. j belongs to the last renewal that was at least half a tick
// before i. So when i is sent, j is at most half a tick + L/3 old. This gives L = ttl - half a tick
// - L/3 - drift of the session. tick 0: unknown.
Duration proven_of(Duration ttl, Duration lock_delay, Duration tick) noexcept;

// Returns how often the session of a waiter must send something, so that two writes prove enough
// when the waiter's turn comes. (They prove L if this interval is at most L/3; otherwise the
// session is resumed.)
constexpr Duration beat_of(Duration ttl) noexcept { return ttl / 12; }

}  // namespace dlock::zookeeper
