// SPDX-License-Identifier: Apache-2.0
// main() of test programs that need mariadbd.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <csignal>
#include "support/mariadb_server.hpp"

int main(int argc, char** argv) {
  if (!dlock::test::mariadb_installed()) return dlock::test::without("mariadbd");
  std::signal(SIGPIPE, SIG_DFL);  // no test may rely on an ignored SIGPIPE
  return Catch::Session().run(argc, argv);
}
