// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/queue/queue_backend.hpp"
#include "zookeeper/session/session_waiter.hpp"

namespace dlock::zookeeper {

// One contender. It makes its node and lists the directory in one go; if not first, it watches the
// one node that decides about it, and lists again when that is gone. Nothing is kept across a
// reconnect: it lists again.
//
// Interleavings:
// 1. The create got no reply: the next poll looks for the owner's guid among the nodes of this
//    session. Only if there is none does it create again. The connection was dropped, so the first
//    request cannot arrive after that look; a new connection of the session makes the ensemble
//    refuse what was outstanding on the old one.
// 2. The node watched is deleted between listing and watching: the watch answers ZNONODE and leaves
// nothing behind, and the list is read again.
// 3. A permit before us is granted between listing and watching: its data say so, and the list is
// read again.
// 4. Two permits are released before the first waiter has listed: it is granted and pokes the next,
// which lists and finds room: no permit is lost.
// 5. The directory is removed (it is a container) before the create: ZNONODE, it is made again.
class QueueWaiter final : public SessionWaiter {
 public:
  QueueWaiter(QueueBackend& backend, Request request, std::string path)
      : SessionWaiter(backend, std::move(request)), backend_(backend), path_(std::move(path)) {}

 private:
  Step turn(Session&, Place&, Deadline end) override;
  // false: the connection broke, or the directory is new
  Result<bool> enter(Session&, Place&, Deadline until);
  Step decide_now(Session&, Place&, Deadline end);
  Step claim(Session&, Place&);
  Step wait(Session&, Place&, const Verdict&, Deadline end);
  Step in_delay(Session&, const Directory&, Deadline end);
  // nothing: it is not there any more
  Result<std::optional<Deadline>> gone_since(Session&, const DelayMark&);
  Result<Progress> waiting(Session*, Place&, const Verdict&);
  std::optional<HolderView> holder(Session&, const std::string& name);
  void reset() override;

  QueueBackend& backend_;
  const std::string path_;
  std::vector<std::string> names_;
  bool listed_ = false;     // names_ are as new as our last event
  bool waited_ = false;     // since our node was made: its creation is no proof any more
  Deadline entered_{};      // before the create was sent
  std::int64_t made_ = 0;   // creation of our node, by the leader's clock, ms; 0: unknown
  Deadline made_before_{};  // by ours
  std::uint64_t connection_ = 0;
  Session* watch_session_ = nullptr;
  std::string watched_, watched_data_;
  // marks of vanished holders, and since when they count as gone
  std::vector<std::pair<std::string, Deadline>> delays_;
  std::string holder_name_;
  std::optional<HolderView> holder_;
  std::optional<Error> too_new_;  // the node in the way was written by a newer dlock
};

}  // namespace dlock::zookeeper
