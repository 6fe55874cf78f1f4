// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include "core/backend.hpp"
#include "redis/client.hpp"
#include "redis/fair_keys.hpp"

namespace dlock::redis {

class FairBackend;

// One place in a queue. It asks (acquire.lua); told to wait it listens on its own list (BLPOP), with a connection of its own as long as that
// takes, and asks again when it is woken, when it has to show that it is alive, or when time may have opened the key. An answer that is
// still to come when a slice ends is taken by the next poll.
//
// Interleavings that remain:
// 1. An acquire got no answer; its connection is cut and a new one asks or cancels. Should the network deliver the first request after all, and
//    after that cancel, its grant belongs to nobody: it blocks the key until its ttl is over. (The connection is reset, so the kernel does not send
//    it again; only what is already on its way can arrive.)
// 2. A script names this waiter, its BLPOP takes the element, and the connection breaks before the answer: it asks again on a new
//    connection, and the script knows nothing of wake-ups: it finds room, and grants.
class FairWaiter final : public Waiter {
 public:
  FairWaiter(FairBackend&, Client&, const Request&);
  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  enum class State { idle, asked, listening };
  using Step = Result<std::optional<Progress>>;  // nothing: go on

  Step start(Deadline end);
  Step hear_answer(Deadline end);
  Step hear_wake(Deadline end);
  Step understand(const Reply&, Deadline end);
  Step grant(const Reply&, bool repeated);
  Result<void> ask(bool by_text);
  Result<void> listen(Duration time);
  Step refused(const Reply&);
  Step broken(Error);
  Progress waiting() const;

  FairBackend& backend_;
  Client& client_;
  const Request request_;
  const FairKeys keys_;
  const Duration patience_;
  State state_ = State::idle;
  std::unique_ptr<Session> session_;
  bool by_text_ = false;  // of the request that is on its way
  Deadline sent_{};       // of the request that is on its way
  Deadline answer_by_{};
  unsigned breaks_ = 0;  // connections lost in this poll
  Waiting last_;
};

}  // namespace dlock::redis
