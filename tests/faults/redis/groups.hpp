// SPDX-License-Identifier: Apache-2.0
// Several servers that belong together.
#pragma once
#include <functional>
#include <memory>
#include <vector>
#include "faults.hpp"

namespace dlock::test {

// Waits until `so` is true; the test fails after `bound`.
inline void eventually(const char* what, Duration bound, const std::function<bool()>& so) {
  for (const Deadline until = later(Clock::now(), bound); Clock::now() < until; ::usleep(5000))
    if (so()) return;
  FAIL("not within " << bound / 1ms << " ms: " << what);
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
    eventually("two replicas follow", 15s,
               [&] { return info_field(*servers[0], "replication", "connected_slaves") == "2"; });
    REQUIRE(replicates(*servers[0]));
    for (auto& s : sentinels) {
      eventually("the sentinels know each other", 15s, [&] {
        return s->command({"SENTINEL", "CKQUORUM", "m"}).text.starts_with("OK 3");
      });
      eventually("the sentinels know the replicas", 15s, [&] {
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
    eventually("all sentinels name a new master", 30s, [&] {
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
      const Reply r = servers[i]->command({"CLUSTER", "ADDSLOTSRANGE", std::to_string(i * 5461),
                                           std::to_string(i == 2 ? 16383 : (i + 1) * 5461 - 1)});
      REQUIRE(r.text == "OK");
    }
    for (int i = 1; i < 4; ++i)
      servers[0]->command({"CLUSTER", "MEET", "127.0.0.1", std::to_string(servers[i]->port()),
                           info_of_config(*servers[i], "cluster-port")});
    for (auto& s : servers)
      eventually("the nodes know each other", 20s,
                 [&] { return cluster_field(*s, "cluster_known_nodes") == "4"; });
    eventually("the cluster is up", 20s,
               [&] { return cluster_field(*servers[3], "cluster_state") == "ok"; });
    REQUIRE(servers[3]->command({"CLUSTER", "REPLICATE", id(0)}).text == "OK");
    eventually("the replica follows", 20s, [&] {
      return info_field(*servers[3], "replication", "master_link_status") == "up";
    });
    for (auto& s : servers)
      eventually("the cluster is up", 20s,
                 [&] { return cluster_field(*s, "cluster_state") == "ok"; });
    eventually("the replica acknowledges", 10s, [&] {
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

}  // namespace dlock::test
