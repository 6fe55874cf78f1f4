// SPDX-License-Identifier: Apache-2.0
// main() of test programs that need a ZooKeeper server.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <csignal>
#include "support/zookeeper_server.hpp"

int main(int argc, char** argv) {
  if (!dlock::test::zookeeper_installed()) return dlock::test::without_zookeeper();
  std::signal(SIGPIPE, SIG_DFL);  // nothing here may rely on its being ignored
  return Catch::Session().run(argc, argv);
}
