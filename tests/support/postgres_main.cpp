// SPDX-License-Identifier: Apache-2.0
// main() of test programs that need a PostgreSQL server.
#include <csignal>
#include "support/catch/run.hpp"
#include "support/postgres_server.hpp"

int main(int argc, char** argv) {
  if (!dlock::test::postgres_installed()) return dlock::test::without("postgres");
  std::signal(SIGPIPE, SIG_DFL);  // no test may rely on an ignored SIGPIPE
  return dlock::test::run_catch(argc, argv);
}
