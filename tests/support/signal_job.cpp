// SPDX-License-Identifier: Apache-2.0
// A job that handles signals itself:
//   signal_job exit N    says `up`, ends with status N on the first signal that can be handled
//   signal_job print     says `up`, then `got SIGNAL` for each signal; ends with status 0 on TERM
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// It ends by _exit(): a leak check at its end may take longer than --kill-after on a busy machine.
namespace {
void say(const char* text) { (void)!::write(1, text, std::strlen(text)); }
}  // namespace

int main(int argc, char** argv) {
  const bool print = argc == 2 && std::strcmp(argv[1], "print") == 0;
  if (!print && !(argc == 3 && std::strcmp(argv[1], "exit") == 0)) return 64;
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  for (int s = 1; s <= SIGRTMAX; ++s) {
    struct sigaction act {};  // a signal ignored at entry would never be queued
    act.sa_handler = [](int) {};
    ::sigaction(s, &act, nullptr);
  }
  say("up\n");
  for (;;) {
    const int sig = ::sigwaitinfo(&all, nullptr);
    if (sig < 0) continue;
    if (!print) ::_exit(std::atoi(argv[2]));
    char line[32];
    std::snprintf(line, sizeof line, "got %d\n", sig);
    say(line);
    if (sig == SIGTERM) ::_exit(0);
  }
}
