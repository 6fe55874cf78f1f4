// SPDX-License-Identifier: Apache-2.0
// Until when a session is proven to live. The server's "connected" proves nothing: a follower that
// is cut off together with its client goes on answering pings and reads while the leader's clock
// for the session runs out.
//
// What the servers do (3.5 to 3.9). The leader alone ends sessions, at the earliest `timeout` after
// it last touched them. It touches a session when the session is created or resumed, and when a
// follower's answer to a ping names it; a request that a follower passes on is no touch. The leader
// pings its followers every half tick. A follower's answer names every session that it received
// data from since its last answer. Pings, commits and the replies to requests go down one ordered
// stream from the leader to each follower; ping answers and requests go up another. A new leader
// gives every session its whole timeout, after the last commit of the old leader.
//
// The proof takes three answered requests of one connection: j, i and k. Here i and k are writes; i
// was sent half a tick or more after the answer to j, and k after the answer to i. When the answer
// to k comes:
//   1. the follower had received data from us when it answered j, so it names us in its answer to
//      the next ping, if not before;
//   2. the leader sent a ping after that and before the commit of i, because half a tick had gone
//      by when i was sent;
//   3. so the follower had answered that ping when i was answered, and passed k on after it;
//   4. so the leader had been touched for us by data of j or later when it took up k, and that was
//      not before j was sent;
//   5. k was committed, so that leader led when it did. A later leader begins later.
// Hence the session lives until `j sent + timeout`, less drift. In the same way k, sent after the
// reply that created or resumed the session, proves `sent + timeout` for the sending of that
// request: the leader itself touches the session then, and the commit proves that it led.
//
// Nothing is assumed about delays in the network, in one direction or both, nor about stops of the
// follower or the client. The assumptions are:
//   A. clocks differ by less than drift;
//   B. the leader sends a ping that is due before a later write has been to a majority and back. So
//      it may stop for any time (collecting garbage, SIGSTOP, a suspended machine), but not twice
//      within the moment between its going on and the ping's leaving;
//   C. the tick is at most half the timeout, or as in `?tick=`;
//   D. the leader itself feeds followers and observers, not `observerMasterPort`.
//
// One write is not enough. In the half tick before it the leader may have stopped, or its pings may
// have come late, so the newest touch may be any time older. The leader would still commit the
// write, and end the session afterwards.
#pragma once
#include <vector>
#include "core/clock.hpp"

namespace dlock::zookeeper {

class Proof {
 public:
  // tick 0: unknown. Then it assumes half of the timeout, the largest tick that a server with
  // default limits can have with it.
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
  // Candidates for j, in ascending order, thinned out. They reach as far back as a later write may
  // need.
  std::vector<Answered> answers_;
  std::vector<Answered> waiting_;  // writes as i, in ascending order; `sent` is that of their j
};

// How old j must be when i is sent. tick 0: unknown.
Duration half_tick(Duration timeout, Duration tick) noexcept;

// Returns L of the start rule, for a session of ttl and lock-delay together whose deadline is the
// proven end less the lock-delay. L is what renewals at intervals of L/3 prove in any case. j
// belongs to the last renewal that was at least half a tick earlier, so it is at most half a tick
// and L/3 old: L = ttl - half a tick - L/3 - drift of the session. tick 0: unknown.
Duration proven_of(Duration ttl, Duration lock_delay, Duration tick) noexcept;

// How often a waiting session must send something, so that two writes prove enough when its turn
// comes. (They prove L if this interval is at most L/3; otherwise the session is resumed.)
constexpr Duration beat_of(Duration ttl) noexcept { return ttl / 12; }

}  // namespace dlock::zookeeper
