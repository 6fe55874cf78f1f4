// SPDX-License-Identifier: Apache-2.0
// main() of test programs that need etcd.
#include <csignal>
#include "support/catch/run.hpp"
#include "support/etcd_server.hpp"

int main(int argc, char** argv) {
  if (!dlock::test::installed(dlock::test::etcd_program))
    return dlock::test::without(dlock::test::etcd_program);
  std::signal(SIGPIPE, SIG_DFL);  // no test may rely on an ignored SIGPIPE
  return dlock::test::run_catch(argc, argv);
}
