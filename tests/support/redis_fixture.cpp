// SPDX-License-Identifier: Apache-2.0
// `redis_fixture FILE`: a Redis server for tests that are scripts. Writes its URL to FILE once it answers, and lives until this
// program is told to end or whoever started it is gone.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include "support/redis_server.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  if (!dlock::test::installed("redis-server")) return dlock::test::without("redis-server");
  sigset_t ends;
  sigemptyset(&ends);
  for (const int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, s);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);  // before the server, which is told by its own death signal
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == 1) return 1;
  try {
    const dlock::test::RedisServer server;
    const std::string made = std::string(argv[1]) + ".new";
    std::FILE* file = std::fopen(made.c_str(), "we");
    if (!file) return 1;
    fmt::print(file, "{}\n", server.url());
    std::fclose(file);
    if (std::rename(made.c_str(), argv[1]) != 0) return 1;
    int which = 0;
    ::sigwait(&ends, &which);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "redis_fixture: %s\n", e.what());
    return 1;
  }
  return 0;
}
