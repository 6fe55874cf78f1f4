// SPDX-License-Identifier: Apache-2.0
// A job that resists its end: `resisting_tree FIFO`. It builds a tree of twelve processes, reports
// it in one line on FIFO, and lives until each of them is killed. Every member holds FIFO open for
// writing and has DLOCK_TEST_TREE=FIFO in its environment, so a reader of FIFO gets end of file
// exactly when the last member is gone, and /proc shows which are left.
//
// `resisting_tree --count FIFO` prints the number of living members, found by both marks.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <thread>
#include "support/process.hpp"

namespace {

int ready_fd = -1;  // each member writes one byte when it is set up

void ready() { (void)!::write(ready_fd, "", 1); }

void ignore(std::initializer_list<int> signals) {
  for (int s : signals) ::signal(s, SIG_IGN);
}

[[noreturn]] void live() {
  for (;;) ::pause();
}

[[noreturn]] void ready_and_live() {
  ready();
  live();
}

// Starts `what` as a child of the caller. It never returns.
template <class F>
pid_t child(F what) {
  const pid_t pid = ::fork();
  if (pid < 0) dlock::test::give_up(std::string("fork: ") + std::strerror(errno));
  if (pid == 0) {
    what();
    ::_exit(0);
  }
  return pid;
}

// Starts `what` as an orphan: its parent exits at once.
template <class F>
void orphan(F what) {
  ::waitpid(child([&] { child(what); }), nullptr, 0);
}

// Each generation lives for 20 ms and leaves a child behind; on a signal to end, ten generations
// follow each other at once.
[[noreturn]] void refork() {
  static volatile sig_atomic_t hurry = 0;
  ::signal(SIGTERM, [](int) { hurry = 10; });
  ready();
  for (;;) {
    if (hurry == 0) ::poll(nullptr, 0, 20);
    if (hurry > 0) hurry = hurry - 1;
    const pid_t pid = ::fork();
    if (pid > 0) ::_exit(0);
  }
}

int build() {
  int expected = 0;
  const auto one = [&](auto what) { ++expected, child(what); };
  ignore({SIGTERM, SIGHUP, SIGINT, SIGQUIT});
  // ignores TERM, as its parent does
  one([] { ready_and_live(); });
  one([] { ::setsid(), ready_and_live(); });                       // out of the session
  one([] { ::setpgid(0, 0), ready_and_live(); });                  // out of the process group
  ++expected, orphan([] { ready_and_live(); });                    // its parent is gone
  ++expected, orphan([] { ::setsid(), orphan(ready_and_live); });  // as daemons do
  one(refork);
  ++expected, orphan([] {  // adopts orphans that should become the guard's children
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    orphan([] { ::setsid(), ready_and_live(); });
    ready_and_live();
  });
  ++expected;  // the one that it adopts
  one([] {     // blocks every signal
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ready_and_live();
  });
  ++expected;
  std::thread([] {  // /proc lists the child of a thread under that thread
    child(ready_and_live);
    live();
  })
      .detach();
  const pid_t stopped = child([] { ::raise(SIGSTOP), live(); });
  int status = 0;
  while (::waitpid(stopped, &status, WUNTRACED) != stopped || !WIFSTOPPED(status)) {}
  return expected;
}

int count(const char* fifo) {
  const dlock::Fd fd(::open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) dlock::test::give_up(std::string(fifo) + ": " + std::strerror(errno));
  char c;
  const bool open = ::read(fd.get(), &c, 1) != 0;  // 0: no process has it open for writing
  const auto members = dlock::test::carriers("DLOCK_TEST_TREE", fifo);
  std::printf("%zu\n", members.empty() && open ? std::size_t{1} : members.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--count") == 0) return count(argv[2]);
  if (argc != 2) return std::fprintf(stderr, "usage: resisting_tree [--count] FIFO\n"), 64;
  const char* const mark = std::getenv("DLOCK_TEST_TREE");
  if (!mark || std::strcmp(mark, argv[1]) != 0) {  // /proc shows the environment of the exec
    ::setenv("DLOCK_TEST_TREE", argv[1], 1);
    ::execv("/proc/self/exe", argv);
    dlock::test::give_up(std::string("exec: ") + std::strerror(errno));
  }
  const int fifo = ::open(argv[1], O_WRONLY);  // inherited by every member
  int p[2];
  if (fifo < 0 || ::pipe(p) != 0)
    dlock::test::give_up(std::string(argv[1]) + ": " + std::strerror(errno));
  ready_fd = p[1];
  const int expected = build();
  char buffer[64];
  for (int n = 0; n < expected;) {
    const ssize_t got = ::read(p[0], buffer, sizeof buffer);
    if (got <= 0) return 1;
    n += int(got);
  }
  // with the leader and the stopped one
  std::string line = "complete " + std::to_string(expected + 2) + "\n";
  (void)!::write(fifo, line.data(), line.size());
  live();
}
