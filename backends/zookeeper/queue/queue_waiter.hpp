// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/queue/queue_backend.hpp"
#include "zookeeper/session/session_waiter.hpp"

namespace dlock::zookeeper {

// The names of the directory's nodes, with the node and session for which they were read. This list
// may decide only about that node in that session, and only until the connection ends.
struct List {
  std::vector<std::string> names;
  std::string node;
  std::int64_t session = 0;
  std::uint64_t connection = 0;

  static List of(const Session&, const QueueNode&, std::vector<std::string> names);
};

// Our place in the queue (QueueNode), together with a List that may decide about this place. Every
// function that decides by a list takes a Standing, so it can never use the list of another node or
// session. A Standing is valid for one step.
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
// 3. The waiter before us is granted a permit between listing and watching. Then the data of its
//    node, which the request for the watch reads, show this, and our waiter lists again.
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
  // False: the caller must try again, because the connection broke or the directory had to be made.
  Result<bool> enter(Session&, QueueNode&, Deadline until);
  Step decide_now(const Standing&, Deadline end);
  Step claim(const Standing&);
  Step wait(const Standing&, const Verdict&, Deadline end);
  Step waiting(Session*, QueueNode&, const Verdict&);
  std::optional<HolderView> holder(Session&, const std::string& name);
  void reset() override;

  QueueBackend& backend_;
  const std::string path_;
  std::optional<List> list_;  // nullopt: no list was read since our last event
  // Whether we have waited since our node was created, or only found the node again. If so, the
  // create does not prove any more that we hold the lock, and claim() sends another write.
  bool waited_ = false;
  Deadline entered_{};  // when the create was sent, or a little earlier
  // watched_: the path that watch_ watches; empty: none. watched_data_: the path of the last node
  // whose data showed a permit.
  std::string watched_, watched_data_;
  std::string holder_name_;
  std::optional<HolderView> holder_;
  std::optional<Error> too_new_;  // set if a newer dlock wrote the node that blocks us
};

}  // namespace dlock::zookeeper
