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
  WatchId new_watch(Session&);  // replaces watch_; the caller fills in `seen_`
  // Returns `event` when watch_ fires, or when the connection that set it is gone. Also contacts
  // the server as often as a proof needs, so that two writes prove a long waiter when its turn
  // comes. For this it reads the watched node, and so notices a change without an event: servers
  // send no event to a login that the node's ACL excludes by then.
  Session::Wake listen_for_watch(Session&, std::uint64_t connection, const std::string& watched,
                                 Deadline end);

  Request request_;  // its owner changes when the place gets another owner
  WatchId watch_ = 0;
  NodeStat seen_;              // of the watched node, when the watch was set
  bool watches_data_ = false;  // whether new data of the watched node are an event
  Deadline sent_at_{};         // as in Waiting

 private:
  Step step(Deadline end);  // begins from the start; only poll() calls it
  Session::Wake listen(Session&, const std::string& watched, Deadline end);
  bool shows_change(const Session::Call& reading) const;
  // Returns our place in a connected session. If it has no node, the caller has to create one, for
  // an owner without abandoned nodes. An Error: it is unknown whether the old node is gone.
  Result<QueueNode*> place();

  SessionBackend& base_;
  Deadline beat_{};  // when to contact the server next
  Session::Call beaten_;
};

}  // namespace dlock::zookeeper
