// SPDX-License-Identifier: Apache-2.0
#include "support/galera.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <cstdio>
#include <stdexcept>

namespace dlock::test {

using namespace std::chrono_literals;

namespace {

constexpr const char* provider = "/usr/lib/galera/libgalera_smm.so";

// Where a node is in the history of its cluster, as it keeps it itself: "UUID:NUMBER".
std::string saved_state(const std::string& position) {
  const auto colon = position.rfind(':');
  return fmt::format("# GALERA saved state\nversion: 2.1\nuuid:    {}\nseqno:   {}\nsafe_to_bootstrap: 0\n", position.substr(0, colon),
                     position.substr(colon + 1));
}

}  // namespace

bool Galera::installed() { return mariadb_installed() && ::access(provider, R_OK) == 0; }

Galera::Galera() {
  std::array<std::uint16_t, 9> ports;
  for (auto& p : ports) p = free_port();
  std::string all;
  for (int i = 0; i < 3; ++i) all += fmt::format("{}127.0.0.1:{}", i ? "," : "", ports[static_cast<std::size_t>(i)]);
  std::string position;
  for (std::size_t i = 0; i < 3; ++i) {
    MariadbServer::Setup s;
    s.config = {"binlog_format=ROW",
                "default_storage_engine=InnoDB",
                "innodb_autoinc_lock_mode=2",
                "wsrep_on=ON",
                fmt::format("wsrep_provider={}", provider),
                "wsrep_cluster_name=dlock_test",
                "wsrep_cluster_address=gcomm://" + all,
                fmt::format("wsrep_node_name=n{}", i),
                "wsrep_node_address=127.0.0.1",
                "wsrep_sst_method=skip",
                fmt::format("wsrep_provider_options=base_port={0};gmcast.listen_addr=tcp://127.0.0.1:{0};ist.recv_addr=127.0.0.1:{1};"
                            "gcache.size=64M;pc.recovery=true",
                            ports[i], ports[i + 3])};
    // The same data: the others are where the first is, and are sent what comes after.
    if (i == 0) s.arguments = {"--wsrep-new-cluster"};
    else s.files = {{"grastate.dat", saved_state(position)}};
    nodes_[i] = std::make_unique<MariadbServer>(s);
    wait_synced(i);
    if (i == 0)
      position = nodes_[0]->sql("SHOW STATUS LIKE 'wsrep_cluster_state_uuid'").rows[0][1].value() + ":" +
                 nodes_[0]->sql("SHOW STATUS LIKE 'wsrep_last_committed'").rows[0][1].value();
  }
}

void Galera::wait_synced(std::size_t i) {
  for (const Deadline until = Clock::now() + 60s; Clock::now() < until; ::usleep(20'000)) {
    try {
      if (nodes_[i]->sql("SHOW STATUS LIKE 'wsrep_local_state_comment'").text(1) == "Synced") return;
    } catch (const std::runtime_error&) {}
  }
  throw std::runtime_error("a node of the cluster is not synced; see " + nodes_[i]->directory() + "/log");
}

void Galera::come_back(std::size_t i) {
  const std::string state = saved_state(nodes_[i]->recovered_position());
  std::FILE* f = std::fopen((nodes_[i]->directory() + "/data/grastate.dat").c_str(), "we");
  if (!f) throw std::runtime_error("cannot write grastate.dat");
  std::fputs(state.c_str(), f);
  std::fclose(f);
  nodes_[i]->start();
  wait_synced(i);
}

std::string Galera::url(const std::string& database, std::size_t first) const {
  std::string hosts;
  for (std::size_t k = 0; k < 3; ++k) hosts += fmt::format("{}127.0.0.1:{}", k ? "," : "", nodes_[(first + k) % 3]->port());
  return fmt::format("mysql://root@{}/{}", hosts, database);
}

}  // namespace dlock::test
