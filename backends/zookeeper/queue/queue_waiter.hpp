// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/queue/queue_backend.hpp"
#include "zookeeper/session/session_waiter.hpp"

namespace dlock::zookeeper {

// A list of the directory, with the node and session for which it was read. The list may decide
// only about this node in this session, and only until the connection ends.
struct List {
  std::vector<std::string> names;
  std::string node;
  std::int64_t session = 0;
  std::uint64_t connection = 0;

  static List of(const Session&, const QueueNode&, std::vector<std::string> names);
};

// A place, together with a list that may decide about it. Each decision by a list takes a Standing,
// so a decision can never use the list of another node or session. A Standing is valid for one
// step.
class Standing {
 public:
  // nullopt: this list may not decide about the place
  static std::optional<Standing> of(Session&, QueueNode&, Dialect, const std::optional<List>&);
  Standing(const Standing&) = delete;
  Standing(Standing&&) = default;

  Session& session;
  QueueNode& place;
  const Directory directory;

 private:
  Standing(Session& s, QueueNode& p, Directory d) : session(s), place(p), directory(std::move(d)) {}
};

// One contender. It sends the create of its node together with the list of the directory. If it
// must wait, it watches the node or directory that the Verdict names, and lists again after a
// change there. After a reconnect it uses no earlier list, but lists again.
//
// Interleavings:
// 1. The create got no reply. The next poll looks for the owner's guid among the nodes of this
//    session, and creates a node only if there is none. The first create cannot arrive after that
//    search, because the connection was dropped: when a session has a new connection, the ensemble
//    refuses the requests that were outstanding on the old connection.
// 2. The watched node is deleted between listing and watching. Then the request for the watch
//    returns ZNONODE and sets no watch, and the waiter lists again.
// 3. A permit before us is granted between listing and watching. Then the node's data show this,
//    and the waiter lists again.
// 4. Two permits are released before the first waiter has listed. Then the first waiter is granted
//    a permit and wakes the next waiter, which lists and finds room. No permit is lost.
// 5. The directory, a container, is removed before the create. Then the create returns ZNONODE, and
//    the waiter makes the directory again.
class QueueWaiter final : public SessionWaiter {
 public:
  QueueWaiter(QueueBackend& backend, Request request, std::string path)
      : SessionWaiter(backend, std::move(request)), backend_(backend), path_(std::move(path)) {}

 private:
  Step turn(Session&, QueueNode&, Deadline end) override;
  // false: the connection broke, or the directory is new
  Result<bool> enter(Session&, QueueNode&, Deadline until);
  Step decide_now(const Standing&, Deadline end);
  Step claim(const Standing&);
  Step wait(const Standing&, const Verdict&, Deadline end);
  Step waiting(Session*, QueueNode&, const Verdict&);
  std::optional<HolderView> holder(Session&, const std::string& name);
  void reset() override;

  QueueBackend& backend_;
  const std::string path_;
  std::optional<List> list_;  // was read after our last event
  bool waited_ = false;       // since our node was created; if so, the create is no proof any more
  Deadline entered_{};        // a time before the create was sent
  // what watch_ watches; empty: nothing
  std::string watched_, watched_data_;
  std::string holder_name_;
  std::optional<HolderView> holder_;
  std::optional<Error> too_new_;  // a newer dlock wrote the node that blocks us
};

}  // namespace dlock::zookeeper
