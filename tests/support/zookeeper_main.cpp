// SPDX-License-Identifier: Apache-2.0
// main() of test programs that need a ZooKeeper server.
#include <csignal>
#include "support/catch/run.hpp"
#include "support/zookeeper_server.hpp"

int main(int argc, char** argv) {
  if (!dlock::test::zookeeper_installed()) return dlock::test::without_zookeeper();
  std::signal(SIGPIPE, SIG_DFL);  // nothing here may rely on its being ignored
  return dlock::test::run_catch(argc, argv);
}
