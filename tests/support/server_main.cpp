// SPDX-License-Identifier: Apache-2.0
// main() of test programs that need a server: MISSING is the function that says what is not
// installed.
#include <csignal>
#include "support/catch/run.hpp"
#include "support/server.hpp"

namespace dlock::test {
const char* MISSING();
}

int main(int argc, char** argv) {
  if (const char* program = dlock::test::MISSING()) return dlock::test::without(program);
  std::signal(SIGPIPE, SIG_DFL);  // no test may rely on an ignored SIGPIPE
  return dlock::test::run_catch(argc, argv);
}
