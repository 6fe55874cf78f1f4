// SPDX-License-Identifier: Apache-2.0
// Throw-away etcd clusters for tests: private directories and ports, gone when the object or the
// test program is gone.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include "core/clock.hpp"
#include "etcd/client/client.hpp"
#include "etcd/factory.hpp"
#include "support/client.hpp"
#include "support/server.hpp"

namespace dlock::test {

const char* missing_etcd();  // what is not installed; nullptr: nothing

// One, or three members of a cluster.
class EtcdServer {
 public:
  struct Setup {
    std::size_t members = 1;
    bool durable = true;  // false: in memory, so that no fsync takes time
    std::vector<std::string> flags;
    std::string scheme = "http";  // for the clients
  };
  explicit EtcdServer(Setup);
  EtcdServer() : EtcdServer(Setup{}) {}
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  std::size_t size() const noexcept { return members_.size(); }
  std::string host(std::size_t member = 0) const;  // 127.0.0.1:PORT
  std::uint16_t port(std::size_t member = 0) const { return members_[member].port; }
  pid_t pid(std::size_t member = 0) const { return members_[member].process.pid(); }
  std::string url() const;                                     // of all, the first one first
  std::string url_of(std::vector<std::size_t> members) const;  // in this order

  void kill(std::size_t member = 0);  // SIGKILL, reaped
  void start(std::size_t member = 0);
  void empty(std::size_t member = 0);   // its data, while it does not run
  void freeze(std::size_t member = 0);  // SIGSTOP, and it has stopped
  void thaw(std::size_t member = 0);
  std::size_t leader();  // waits until all that run know it; throws after 60 s
  std::size_t follower(std::size_t not_this = 3);

  // A client of this member alone, for what other programs would do.
  etcd::Client client(std::size_t member = 0) const;
  // The status of `etcdctl WORDS`, and what it prints. Throws when it was not done.
  std::string etcdctl(const std::vector<std::string>& words) const;
  void wait_ready();  // every member that runs commits; throws after 60 s

 private:
  struct Member {
    std::uint16_t port = 0, peer = 0;
    ServerProcess process{};
    bool stopped = false;
  };
  Setup setup_;
  TestDirectory directory_;
  std::vector<Member> members_;
};

std::unique_ptr<Backend> open_etcd(const std::string& url, const Settings& settings = {},
                                   std::string_view recipe = "queue");
// One server for the whole test program; tests use a path of their own.
EtcdServer& shared_etcd();
std::string fresh_etcd_path();  // "/t7"

}  // namespace dlock::test
