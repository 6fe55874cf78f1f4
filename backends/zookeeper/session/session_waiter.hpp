// SPDX-License-Identifier: Apache-2.0
// What the waiters of all recipes share: poll() repeats turn() until a turn gives a result,
// cancel() leaves the queue, and the watch ends with the waiter.
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
  // Does one turn. The QueueNode is our place in this connected session, and is not granted yet.
  virtual Step turn(Session&, QueueNode&, Deadline end) = 0;
  // Forgets what was read, because the place gets a new node or another session.
  virtual void reset() { watch_ = 0; }

  // Call it when it is our turn: a write that was sent at `sent` has shown this. Before the call,
  // the request to watch our node must have been sent. go_on: the place has just ended, and is
  // removed.
  Step granted(QueueNode&, Deadline sent);
  WatchId new_watch(Session&);  // replaces watch_; the caller fills in `seen_`
  // Returns `event` when watch_ fires, or when the connection that set the watch is gone. Also
  // reads the watched node, once in each interval beat_of(ttl). These reads keep the proof recent
  // that our session is alive (proof.hpp). So, even after a long wait, two writes are enough to
  // prove the lease when our turn comes. The reading also shows a change for which no event
  // came: servers send us no event if the node's ACL excludes our login when the change happens.
  Session::Wake listen_for_watch(Session&, std::uint64_t connection, const std::string& watched,
                                 Deadline end);

  Request request_;  // place() may replace its owner (SessionBackend::renew_owner())
  WatchId watch_ = 0;
  NodeStat seen_;              // the stat of the watched node when the watch was set
  bool watches_data_ = false;  // whether new data of the watched node are an event
  Deadline sent_at_{};         // Waiting::sent_at

 private:
  Step step(Deadline end);  // finds the place, and does one turn; only poll() calls it
  Session::Wake listen(Session&, const std::string& watched, Deadline end);
  bool shows_change(const Session::Call& reading) const;
  // Returns our place in a connected session. If the place has no node, the owner has no abandoned
  // node either, and the caller has to create a node. Error: it is unknown whether an old node is
  // gone.
  Result<QueueNode*> place();

  SessionBackend& base_;
  Deadline beat_{};  // when to contact the server next
  Session::Call beaten_;
};

}  // namespace dlock::zookeeper
