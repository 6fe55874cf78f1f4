// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include "support/client.hpp"
#include "support/zookeeper_server.hpp"
#include "zookeeper/factory.hpp"
#include "zookeeper/session/session.hpp"

namespace dlock::test {

std::unique_ptr<Backend> open_zookeeper(const std::string& url, const Settings& settings = {},
                                        std::string_view recipe = "sequential");

// One server for the whole test program; tests use a chroot of their own.
ZookeeperServer& shared_zookeeper();
std::string fresh_chroot();  // "/t7"

// What other programs would do: a session to make and look at nodes with.
class RawZookeeper {
 public:
  explicit RawZookeeper(const std::string& url, Duration timeout = std::chrono::seconds{10});
  std::vector<std::string> children(const std::string& path);
  std::string make(const std::string& path, const std::string& data = "", bool ephemeral = true,
                   bool sequential = false);
  void make_all(const std::string& path);  // persistent, with all above it
  int remove(const std::string& path);
  zookeeper::Reply get(const std::string& path);
  zookeeper::Session& session() { return *session_; }

 private:
  zookeeper::Options options_;
  std::unique_ptr<zookeeper::Session> session_;
};

}  // namespace dlock::test
