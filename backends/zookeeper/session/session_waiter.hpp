// SPDX-License-Identifier: Apache-2.0
// What the waiters on a session share: turns until one gives a result, leaving, and the watch that
// must not outlive the waiter.
#pragma once
#include "zookeeper/session/session_backend.hpp"

namespace dlock::zookeeper {

class SessionWaiter : public Waiter {
 public:
  ~SessionWaiter() override;
  Result<Progress> poll(Duration slice) final;
  Result<void> cancel() final;

 protected:
  using Step = Result<std::optional<Progress>>;
  static constexpr std::nullopt_t go_on = std::nullopt;  // this step has decided nothing

  SessionWaiter(SessionBackend& base, Request request)
      : request_(std::move(request)), base_(base) {}
  // Does one turn. `QueueNode` is ours in this connected session, and not granted.
  virtual Step turn(Session&, QueueNode&, Deadline end) = 0;
  virtual void reset() { watch_ = 0; }  // the place has a new node, or another session

  // It is our turn, as a write sent at that time shows, and the request to watch the node was sent.
  // go_on: the place has just ended, and is removed.
  Step granted(QueueNode&, Deadline sent);
  // Like Session::listen, but also contacts the server as often as a proof needs. So two writes
  // prove a long waiter when its turn comes.
  Session::Wake listen(Session&, const std::string& path, Deadline end);
  // Returns `event` when watch_ fires, or when the connection that set it is gone.
  Session::Wake listen_for_watch(Session&, std::uint64_t connection, const std::string& path,
                                 Deadline end);

  Request request_;  // its owner changes when the place gets another owner
  WatchId watch_ = 0;
  Deadline sent_at_{};  // as in Waiting

 private:
  Step step(Deadline end);  // begins from the start; only poll() calls it
  // Returns our place in a connected session. If it has no node, the caller has to create one, for
  // an owner without abandoned nodes. An Error: it is unknown whether the old node is gone.
  Result<QueueNode*> place();

  SessionBackend& base_;
  Deadline beat_{};  // when to contact the server next
  Session::Call beaten_;
};

}  // namespace dlock::zookeeper
