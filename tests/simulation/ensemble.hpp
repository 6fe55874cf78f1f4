// SPDX-License-Identifier: Apache-2.0
// A ZooKeeper of one server, as far as the recipe `sequential` sees it: sessions that end when they
// were not heard for their timeout, rounded up to a tick; nodes that end with them; watches. It
// speaks with zoo_library.cpp in frames of fields, not in the protocol of ZooKeeper.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>
#include "simulation/ledger.hpp"
#include "simulation/network.hpp"
#include "simulation/world.hpp"

namespace dlock::simulation {

using Fields = std::vector<std::string>;
std::string frame(const Fields&);
// The next frame, removed from `from`; empty: it is not complete.
Fields take_frame(std::string& from);

class Ensemble final : public Server {
 public:
  Ensemble(World& world, Ledger& ledger) : Server(world), ledger_(ledger) {
    nodes_["/"];
    ledger_.tokens_of_coming = true;
  }

  void closed(const LinkPtr&) override;
  // Keeps everything; but a new leader tracks each session by its first timeout.
  void restart() override;
  bool empty() const override;
  std::uint64_t hash() const override;
  bool undoes(std::string_view request) const override;
  std::string name_of(std::string_view request) const override;

 private:
  struct Node {
    std::string data;
    std::int64_t czxid = 0, owner = 0, version = 0, next = 0;
    bool holds = false;
  };
  struct Session {
    Nanos created = 0, timeout = 0, touched = 0;
    LinkPtr link{};
    std::set<std::string> watches;  // "c/path": children, "d/path": the node
  };
  struct Change {
    int rc = 0;
    std::string path;
  };
  void serve(const LinkPtr&) override;
  void execute(const LinkPtr&, const Fields&);
  void connect(const LinkPtr&, const Fields&);
  void touch(std::int64_t id);
  void expire(std::int64_t id);
  void end(std::int64_t id, bool by_time);
  Change create(std::int64_t session, const std::string& path, const std::string& data, int flags);
  Change remove(const std::string& path, std::string_view how);
  Change set(const std::string& path, const std::string& data, std::int64_t version);
  int check(const std::string& path, std::int64_t version) const;
  Fields multi(std::int64_t session, const Fields&);
  std::vector<std::string> children(const std::string& path) const;
  void fire(const std::string& watch);
  void look_at_queues();
  static void add_stat(Fields&, const Node&);

  Ledger& ledger_;
  std::int64_t zxid_ = 100, last_session_ = 0;
  std::map<std::string, Node> nodes_;
  std::map<std::int64_t, Session> sessions_;
  std::map<const Link*, std::int64_t> of_link_;
};

}  // namespace dlock::simulation
