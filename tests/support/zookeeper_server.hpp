// SPDX-License-Identifier: Apache-2.0
// Throw-away ZooKeeper servers for tests: private directories and ports, gone when the object or
// the test program is gone.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include "core/clock.hpp"
#include "support/server.hpp"

namespace dlock::test {

const char* missing_zookeeper();  // what is not installed; nullptr: nothing

class ZookeeperServer {
 public:
  struct Setup {
    std::vector<std::string> config;  // lines of zoo.cfg, after the usual ones
    Duration tick = std::chrono::milliseconds{100};
    std::string address = "127.0.0.1";
    std::vector<std::string> prefix;  // words before the command: `ip netns exec NAME`
    std::uint16_t port = 0;           // 0: a free one
    int id = 0;                       // of an ensemble's member
    bool wait_ready = true;
    bool durable = true;  // false: a write is not forced to the disk
  };
  explicit ZookeeperServer(Setup);
  ZookeeperServer() : ZookeeperServer(Setup{}) {}
  ZookeeperServer(const ZookeeperServer&) = delete;
  ZookeeperServer& operator=(const ZookeeperServer&) = delete;

  std::string host() const;  // address:port
  std::string url() const { return "zookeeper://" + host(); }
  std::uint16_t port() const noexcept { return port_; }
  pid_t pid() const noexcept { return process_.pid(); }

  void kill() { process_.kill(); }        // SIGKILL, reaped
  void start();                           // again, same place
  void configure(std::string_view line);  // of zoo.cfg, for the next start
  std::string data() const { return directory_.path() + "/data"; }  // a directory
  void freeze() { process_.freeze(); }                              // SIGSTOP, and it has stopped
  void thaw() { process_.thaw(); }
  // The answer to a four-letter word ("srvr", "mntr"); empty when there is none within a second.
  std::string word(std::string_view four) const;
  std::string field(std::string_view name) const;  // of "srvr": "Mode" -> "leader"
  void wait_ready() const;                         // throws after 30 s

 private:
  Setup setup_;
  TestDirectory directory_;
  std::uint16_t port_;
  ServerProcess process_;
};

// Three servers.
class ZookeeperEnsemble {
 public:
  struct Setup {
    Duration tick = std::chrono::milliseconds{200};
    std::vector<std::string> addresses{"127.0.0.1", "127.0.0.1", "127.0.0.1"};
    std::vector<std::vector<std::string>> prefixes{{}, {}, {}};
  };
  explicit ZookeeperEnsemble(Setup);
  ZookeeperEnsemble() : ZookeeperEnsemble(Setup{}) {}

  ZookeeperServer& operator[](std::size_t i) { return *servers_[i]; }
  std::size_t leader();  // waits until there is one and all follow; throws after 120 s
  std::size_t follower(std::size_t not_this = 3);
  std::string url() const;

 private:
  std::vector<std::unique_ptr<ZookeeperServer>> servers_;
};

}  // namespace dlock::test
