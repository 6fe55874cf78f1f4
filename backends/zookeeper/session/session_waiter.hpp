// SPDX-License-Identifier: Apache-2.0
// Shared by the waiters on a session: turns until one has an answer, leaving, and the watch that
// must not outlive it.
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
  // `Place` is ours in this connected session, and not granted.
  virtual Step turn(Session&, Place&, Deadline end) = 0;
  virtual void reset() { watch_ = 0; }  // the place is taken anew, or its session is another one

  // It is our turn, by a write sent then, and the request to watch the node is sent. go_on: it
  // ended just now, and its place is removed.
  Step granted(Place&, Deadline sent);
  // As Session::listen, and keeps the server informed at the pace that a proof needs: so two writes
  // prove a long waiter when its turn comes.
  Session::Wake listen(Session&, const std::string& path, Deadline end);
  // Until watch_ fires, or the connection is another one than that which has set it: event.
  Session::Wake listen_for_watch(Session&, std::uint64_t connection, const std::string& path,
                                 Deadline end);

  Request request_;  // its owner changes when the place has to be taken anew
  WatchId watch_ = 0;
  Deadline sent_at_{};  // as in Waiting

 private:
  Step step(Deadline end);  // from the beginning; called by poll() alone
  // Our place in a connected session. Without a node: it has to be made, for an owner without
  // abandoned nodes. An Error: whether the old node is gone is unknown.
  Result<Place*> place();

  SessionBackend& base_;
  Deadline beat_{};  // when to contact the server next
  Session::Call beaten_;
};

}  // namespace dlock::zookeeper
