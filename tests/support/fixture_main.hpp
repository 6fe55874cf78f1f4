// SPDX-License-Identifier: Apache-2.0
// `NAME_fixture FILE`: a server for tests that are scripts. Writes its URL to FILE once it answers,
// and lives until it is told to end or its parent is gone.
#pragma once
#include <sys/prctl.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

namespace dlock::test {

// `start`: starts the server, which lives as long as the returned object, with a url().
template <class Start>
int serve(int argc, char** argv, Start start) {
  if (argc != 2) return 64;
  sigset_t ends;
  sigemptyset(&ends);
  for (const int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, s);
  // before the server starts, whose parent death signal it inherits
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == 1) return 1;
  try {
    const auto server = start();
    const std::string made = std::string(argv[1]) + ".new";
    std::FILE* file = std::fopen(made.c_str(), "we");
    if (!file) return 1;
    std::fprintf(file, "%s\n", server->url().c_str());
    std::fclose(file);
    if (std::rename(made.c_str(), argv[1]) != 0) return 1;
    int which = 0;
    ::sigwait(&ends, &which);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
  return 0;
}

}  // namespace dlock::test
