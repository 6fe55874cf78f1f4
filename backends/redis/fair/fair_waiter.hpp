// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include "core/backend.hpp"
#include "redis/fair/fair_record.hpp"
#include "redis/wire/exchange.hpp"

namespace dlock::redis {

class FairBackend;

// One place in a queue. It sends acquire.lua; if it must wait it listens on its own list (BLPOP),
// with its own connection meanwhile, and sends acquire.lua again when it is woken, when it has to
// show that it lives, or when time may have opened the key. A reply still outstanding at the end of
// a slice is read by the next poll.
//
// Interleavings that remain:
// 1. An acquire got no reply; its connection is cut and a new one repeats it or cancels. If the
//    network delivers the first request after all, and after that cancel, its grant has no owner:
//    it blocks the key until its ttl is over. (The connection is reset, so the kernel does not send
//    it again; only data already on its way can arrive.)
// 2. A script names this waiter, its BLPOP takes the element, and the connection breaks before the
//    reply: it sends acquire.lua again on a new connection, which does not depend on wake-ups: it
//    finds room, and grants.
class FairWaiter final : public Waiter {
 public:
  FairWaiter(FairBackend&, Client&, const Request&);
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  using Step = Result<std::optional<Progress>>;  // nothing: go on

  Step start();
  Step hear_answer(Deadline end);
  Step hear_wake(Deadline end);
  Step understand(const Answer&, Deadline end);
  Step grant(const Answer&, bool repeated);
  Step rest(Deadline end);
  void listen(Duration time);
  Command command() const;
  void look_again_soon();
  Progress waiting();
  std::string where() const;
  tl::unexpected<Error> malformed();
  tl::unexpected<Error> too_few_have(const Lease&, std::int64_t replicas);

  FairBackend& backend_;
  Client& client_;
  Request request_;  // with the owner of this attempt: nothing was released under it
  const FairKeys keys_;
  const Duration patience_;
  // At most one of these three: acquire.lua is on its way, BLPOP is, or it is not to be sent
  // before.
  std::optional<Exchange> acquire_;
  std::unique_ptr<Line> listening_;
  std::optional<Deadline> rest_until_;
  bool queued_ = false;        // it got a place
  std::optional<Lease> owed_;  // a grant that was released, without an answer
  Deadline grants_from_{};     // the end of the server's restart_grace: a place, no grant before
  unsigned breaks_ = 0;        // lines lost in this poll
  Waiting last_;
};

}  // namespace dlock::redis
