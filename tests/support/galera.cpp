// SPDX-License-Identifier: Apache-2.0
#include "support/galera.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <stdexcept>

namespace dlock::test {

using namespace std::chrono_literals;

namespace {

constexpr const char* provider = "/usr/lib/galera/libgalera_smm.so";
constexpr const char* transfer = "/usr/bin/wsrep_sst_rsync";

}  // namespace

bool Galera::installed() {
  return !missing_mariadb() && ::access(provider, R_OK) == 0 && ::access(transfer, X_OK) == 0;
}

Galera::Galera() {
  std::array<std::uint16_t, 9> ports;
  for (auto& p : ports) p = free_port();
  std::string all;
  for (int i = 0; i < 3; ++i)
    all += fmt::format("{}127.0.0.1:{}", i ? "," : "", ports[static_cast<std::size_t>(i)]);
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
                "wsrep_sst_method=rsync",
                fmt::format("wsrep_sst_receive_address=127.0.0.1:{}", ports[i + 6]),
                fmt::format("wsrep_provider_options=base_port={0};gmcast.listen_addr=tcp://"
                            "127.0.0.1:{0};ist.recv_addr=127.0.0.1:{1};"
                            "gcache.size=64M;pc.recovery=true",
                            ports[i], ports[i + 3])};
    s.user = "mysql";  // rsync refuses to serve root
    if (i == 0) s.arguments = {"--wsrep-new-cluster"};
    nodes_[i] = std::make_unique<MariadbServer>(s);
    wait_synced(i);
  }
}

void Galera::wait_synced(std::size_t i) {
  for (const Deadline until = Clock::now() + 180s; Clock::now() < until; ::usleep(20'000)) {
    try {
      if (nodes_[i]->sql("SHOW STATUS LIKE 'wsrep_local_state_comment'").text(1) == "Synced")
        return;
    } catch (const std::runtime_error&) {}
  }
  throw std::runtime_error("a node of the cluster is not synced; see " + nodes_[i]->directory() +
                           "/log.err");
}

void Galera::come_back(std::size_t i) {
  nodes_[i]->start();
  wait_synced(i);
}

std::string Galera::url(const std::string& database, std::size_t first) const {
  std::string hosts;
  for (std::size_t k = 0; k < 3; ++k)
    hosts += fmt::format("{}127.0.0.1:{}", k ? "," : "", nodes_[(first + k) % 3]->port());
  return fmt::format("mysql://root@{}/{}", hosts, database);
}

}  // namespace dlock::test
