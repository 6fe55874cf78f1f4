// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include "support/fixture_main.hpp"
#include "support/zookeeper_server.hpp"

using namespace dlock::test;

int main(int argc, char** argv) {
  if (!zookeeper_installed()) return without_zookeeper();
  // Leases of an hour, as other stores give them; and no test here is about a server that crashes.
  return serve(argc, argv, [] {
    return std::make_unique<ZookeeperServer>(
        ZookeeperServer::Setup{.config = {"maxSessionTimeout=7200000"}, .durable = false});
  });
}
