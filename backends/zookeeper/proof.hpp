// SPDX-License-Identifier: Apache-2.0
// Until when a session is proven to live. The server's "connected" proves nothing: a follower that is cut off together with its client goes on
// answering pings and reads while the leader's clock for the session runs out.
//
// What is proof: a write of ours that was committed. It went through the leader, on the same ordered stream as the follower's reports of which
// sessions it has heard from. The leader asks for those every half tick and restarts a session's clock when it gets one; so when a write sent at w
// is committed, the clock was last restarted no earlier than the last packet of ours that had reached the follower half a tick before w. Hence
//
//   lives until   w + timeout - tick/2 - (largest gap between our packets there) - drift
//
// A new session, and one that was taken up again, is known to the leader at once: it lives until `sent + timeout - drift`.
#pragma once
#include <vector>
#include "core/clock.hpp"

namespace dlock::zookeeper {

class Proof {
 public:
  // tick zero: not known, and taken for the largest that a server with default limits can have with this timeout, half of it.
  explicit Proof(Duration tick) : tick_(tick) {}

  void attached(Deadline sent, Duration timeout);  // the session was made, or taken up again, by a request sent then
  void heard(Deadline sent);                       // the server answered a request sent then
  void committed(Deadline sent);                   // a write sent then was committed
  Deadline until() const noexcept { return until_; }

 private:
  Duration half_tick() const noexcept { return tick_ > Duration{} ? tick_ / 2 : timeout_ / 4; }

  Duration tick_, timeout_{};
  Deadline until_{};
  Deadline attached_{};
  std::vector<Deadline> heard_;  // when what was answered had been sent, ascending; as far back as committed() may look
};

// What of a ttl is proven in any case, when renewals are at most a quarter of it apart and nothing is known about the server: the start rule's L.
constexpr Duration proven_of(Duration ttl) noexcept { return ttl / 2 - drift(ttl); }

}  // namespace dlock::zookeeper
