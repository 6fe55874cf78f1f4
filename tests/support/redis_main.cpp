// SPDX-License-Identifier: Apache-2.0
// main() of test programs that need redis-server.
#include <csignal>
#include "support/catch/run.hpp"
#include "support/redis_server.hpp"

int main(int argc, char** argv) {
  if (!dlock::test::installed("redis-server")) return dlock::test::without("redis-server");
  std::signal(SIGPIPE, SIG_DFL);  // no test may rely on an ignored SIGPIPE
  return dlock::test::run_catch(argc, argv);
}
