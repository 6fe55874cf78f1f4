// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/queue/queue_backend.hpp"
#include "zookeeper/session/session_waiter.hpp"

namespace dlock::zookeeper {

// A list of the directory, with the node and session that asked for it. The list decides only about
// this node in this session, and only while its connection lasts.
struct List {
  std::vector<std::string> names;
  std::string node;
  std::int64_t session = 0;
  std::uint64_t connection = 0;

  static List of(const Session&, const QueueNode&, std::vector<std::string> names);
};

// The position of a place in its queue. Every decision by a list takes a Standing, so it can never
// use the list of another node or session. A Standing is valid for one step.
class Standing {
 public:
  // nullopt: this list does not decide about the place
  static std::optional<Standing> of(Session&, QueueNode&, Dialect, const std::optional<List>&);
  Standing(const Standing&) = delete;
  Standing(Standing&&) = default;

  Session& session;
  QueueNode& place;
  const Directory directory;

 private:
  Standing(Session& s, QueueNode& p, Directory d) : session(s), place(p), directory(std::move(d)) {}
};

// One contender. It creates its node and lists the directory in one go. If it is not the first, it
// watches the one node that decides about it, and lists again when that node is gone. Nothing is
// kept across a reconnect: it lists again.
//
// Interleavings:
// 1. The create got no reply. The next poll looks for the owner's guid among the nodes of this
//    session, and creates again only if there is none. The connection was dropped, so the first
//    request cannot arrive after that look: a new connection of the session makes the ensemble
//    refuse what was outstanding on the old one.
// 2. The watched node is deleted between listing and watching: the watch returns ZNONODE and leaves
//    nothing behind, and the waiter lists again.
// 3. A permit before us is granted between listing and watching: its data say so, and the waiter
//    lists again.
// 4. Two permits are released before the first waiter has listed: it is granted and wakes the next,
//    which lists and finds room. No permit is lost.
// 5. The directory is removed (it is a container) before the create: ZNONODE, and the waiter makes
//    it again.
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
  std::optional<List> list_;  // as new as our last event
  bool waited_ = false;       // since our node was made: its creation is no proof any more
  Deadline entered_{};        // before the create was sent
  // what watch_ watches; empty: nothing
  std::string watched_, watched_data_;
  std::string holder_name_;
  std::optional<HolderView> holder_;
  std::optional<Error> too_new_;  // a newer dlock wrote the node that blocks us
};

}  // namespace dlock::zookeeper
