// SPDX-License-Identifier: Apache-2.0
// Several Redis servers that belong together.
#pragma once
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>
#include "redis/wire/locator.hpp"
#include "support/redis_client.hpp"

namespace dlock::test {

using std::chrono::seconds;

// Waits until `so` is true; throws after `bound`.
inline void eventually(const char* what, const std::function<bool()>& so) {
  for (const Deadline until = later(Clock::now(), seconds{60}); Clock::now() < until;
       ::usleep(5000))
    if (so()) return;
  throw std::runtime_error(fmt::format("not within a minute: {}", what));
}

// Throws unless the answer is OK.
inline void done(RedisServer& at, std::initializer_list<std::string_view> command) {
  const Reply r = at.command(command);
  if (r.text != "OK") throw std::runtime_error(fmt::format("{}: {}", *command.begin(), r.text));
}

// A master, two replicas, three sentinels; the master's name is `m`.
struct SentinelGroup {
  std::vector<std::unique_ptr<RedisServer>> servers, sentinels;

  SentinelGroup() {
    servers.push_back(std::make_unique<RedisServer>(RedisServer::Setup{
        .config = {"repl-diskless-sync-delay 0", "repl-ping-replica-period 1"}}));
    const std::string address = fmt::format("127.0.0.1 {}", servers[0]->port());
    for (int i = 0; i < 2; ++i)
      servers.push_back(std::make_unique<RedisServer>(
          RedisServer::Setup{.config = {"replicaof " + address, "repl-diskless-sync-delay 0",
                                        "repl-ping-replica-period 1"}}));
    for (int i = 0; i < 3; ++i) sentinels.push_back(sentinel(address, 2));
    eventually("two replicas follow",
               [&] { return info_field(*servers[0], "replication", "connected_slaves") == "2"; });
    if (!replicates(*servers[0])) throw std::runtime_error("no replica acknowledges");
    for (auto& s : sentinels) {
      eventually("the sentinels know each other", [&] {
        return s->command({"SENTINEL", "CKQUORUM", "m"}).text.starts_with("OK 3");
      });
      eventually("the sentinels know the replicas", [&] {
        return s->command({"SENTINEL", "REPLICAS", "m"}).items.size() == 2;
      });
    }
  }

  static std::unique_ptr<RedisServer> sentinel(const std::string& address, int quorum) {
    return std::make_unique<RedisServer>(RedisServer::Setup{
        .config = {fmt::format("sentinel monitor m {} {}", address, quorum),
                   "sentinel down-after-milliseconds m 700", "sentinel failover-timeout m 3000",
                   "sentinel parallel-syncs m 1"},
        .arguments = {"--sentinel"}});
  }

  std::string url(const std::string& items = "?restart_grace=0") const {
    return url_of({&*sentinels[0], &*sentinels[1], &*sentinels[2]}, items);
  }
  static std::string url_of(const std::vector<const RedisServer*>& of,
                            const std::string& items = "?restart_grace=0",
                            const std::string& name = "m") {
    std::string hosts;
    for (const auto* s : of)
      hosts += fmt::format("{}127.0.0.1:{}", hosts.empty() ? "" : ",", s->port());
    return fmt::format("redis+sentinel://{}/{}{}", hosts, name, items);
  }
  std::uint16_t master_port() {
    return static_cast<std::uint16_t>(sentinels[0]
                                          ->command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"})
                                          .number_at(1)
                                          .value_or(0));
  }
  RedisServer& master() {
    const auto port = master_port();
    for (auto& s : servers)
      if (s->port() == port) return *s;
    throw std::runtime_error("no master");
  }
  void wait_new_master(std::uint16_t old) {
    eventually("all sentinels name a new master", [&] {
      for (auto& s : sentinels) {
        const auto port = s->command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"}).number_at(1);
        if (!port || *port == old || *port != master_port()) return false;
      }
      return info_field(master(), "replication", "role") == "master";
    });
  }
};

// Three masters with a third of the slots each, and one replica of the first.
struct ClusterGroup {
  std::vector<std::unique_ptr<RedisServer>> servers;

  ClusterGroup() {
    for (int i = 0; i < 4; ++i)
      servers.push_back(std::make_unique<RedisServer>(RedisServer::Setup{
          .config = {"cluster-enabled yes", fmt::format("cluster-port {}", free_port()),
                     "cluster-node-timeout 1000", "cluster-replica-validity-factor 0",
                     "repl-diskless-sync-delay 0", "repl-ping-replica-period 1"}}));
    for (int i = 0; i < 3; ++i) {
      const std::string first = std::to_string(i * 5461),
                        last = std::to_string(i == 2 ? 16383 : (i + 1) * 5461 - 1);
      done(*servers[i], {"CLUSTER", "ADDSLOTSRANGE", first, last});
    }
    for (int i = 1; i < 4; ++i)
      servers[0]->command({"CLUSTER", "MEET", "127.0.0.1", std::to_string(servers[i]->port()),
                           info_of_config(*servers[i], "cluster-port")});
    for (auto& s : servers)
      eventually("the nodes know each other",
                 [&] { return cluster_field(*s, "cluster_known_nodes") == "4"; });
    eventually("the cluster is up",
               [&] { return cluster_field(*servers[3], "cluster_state") == "ok"; });
    done(*servers[3], {"CLUSTER", "REPLICATE", id(0)});
    eventually("the replica follows", [&] {
      return info_field(*servers[3], "replication", "master_link_status") == "up";
    });
    for (auto& s : servers)
      eventually("the cluster is up", [&] { return cluster_field(*s, "cluster_state") == "ok"; });
    eventually("the replica acknowledges", [&] {
      servers[0]->command({"SET", "{written}", "1"});
      return servers[0]->command({"WAIT", "1", "200"}).integer == 1 &&
             info_field(*servers[0], "replication", "master_repl_offset") != "0";
    });
  }

  static std::string info_of_config(RedisServer& s, const char* name) {
    return std::string{s.command({"CONFIG", "GET", name}).text_at(1)};
  }
  std::string id(std::size_t i) { return servers[i]->command({"CLUSTER", "MYID"}).text; }
  static std::string cluster_field(RedisServer& s, const std::string& field) {
    const std::string info = s.command({"CLUSTER", "INFO"}).text;
    const std::size_t at = info.find(field + ":");
    return at == info.npos
               ? ""
               : info.substr(at + field.size() + 1, info.find("\r\n", at) - at - field.size() - 1);
  }
  std::string url(const std::string& items = "?restart_grace=0") const {
    return fmt::format("redis+cluster://127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}{}",
                       servers[0]->port(), servers[1]->port(), servers[2]->port(), items);
  }
};

// The slot of one key, while it is moved from one master to another.
class Resharding {
 public:
  Resharding(ClusterGroup& g, std::string_view key)
      : g_(g),
        number_(redis::slot_of(key)),
        slot_(std::to_string(number_)),
        from_(std::min<std::size_t>(number_ / 5461, 2)),
        to_((from_ + 1) % 3) {
    done(*g_.servers[to_], {"CLUSTER", "SETSLOT", slot_, "IMPORTING", g_.id(from_)});
    done(*g_.servers[from_], {"CLUSTER", "SETSLOT", slot_, "MIGRATING", g_.id(to_)});
  }
  // false: there is no such key
  bool move(const std::string& name) {
    const std::string port = std::to_string(g_.servers[to_]->port());
    const Reply r = g_.servers[from_]->command({"MIGRATE", "127.0.0.1", port, name, "0", "5000"});
    if (r.text != "OK" && r.text != "NOKEY") throw std::runtime_error("MIGRATE: " + r.text);
    return r.text == "OK";
  }
  void move_all() {
    const auto left = [&] {
      return g_.servers[from_]->command({"CLUSTER", "GETKEYSINSLOT", slot_, "100"}).items;
    };
    for (auto keys = left(); !keys.empty(); keys = left())
      for (const Reply& k : keys) move(k.text);
  }
  void finish() {
    for (const std::size_t i : {to_, from_})
      done(*g_.servers[i], {"CLUSTER", "SETSLOT", slot_, "NODE", g_.id(to_)});
  }

 private:
  ClusterGroup& g_;
  const std::uint16_t number_;
  const std::string slot_;
  const std::size_t from_, to_;
};

}  // namespace dlock::test
