// SPDX-License-Identifier: Apache-2.0
#include "job/process.hpp"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <sstream>
#include "util/fd.hpp"

using namespace dlock;
using namespace dlock::run;
using namespace std::chrono_literals;

namespace {

// A child with a child of its own; both live until they get a signal.
struct Family {
  pid_t child = 0, grandchild = 0;
  Family() {
    int p[2];
    REQUIRE(::pipe(p) == 0);
    child = ::fork();
    if (child == 0) {
      const pid_t below = ::fork();
      if (below > 0) (void)!::write(p[1], &below, sizeof below);
      for (;;) ::pause();
    }
    REQUIRE(::read(p[0], &grandchild, sizeof grandchild) == sizeof grandchild);
    ::close(p[0]), ::close(p[1]);
  }
  ~Family() {
    ::kill(grandchild, SIGKILL), ::kill(child, SIGKILL);
    while (::waitpid(-1, nullptr, 0) > 0) {}
  }
};

int end_of(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

Deadline soon() { return later(Clock::now(), 10s); }

}  // namespace

TEST_CASE("which processes are descendants") {
  const Family family;
  CHECK(is_descendant(family.child));
  CHECK(is_descendant(family.grandchild));
  // decided by the process that has this pid now, not by an earlier one
  CHECK_FALSE(is_descendant(::getppid()));
  CHECK_FALSE(is_descendant(::getpid()));
  CHECK_FALSE(is_descendant(1));
  const OwnChildren own;
  CHECK(own.list() == std::vector<pid_t>{family.child});
  CHECK(descendants_of(::getpid(), soon()) == std::vector<pid_t>{family.child, family.grandchild});
}

TEST_CASE("what /proc says of a process") {
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  ::prctl(PR_SET_NAME, ") R 1 (2 3");  // a name may contain anything
  const auto process = process_stat(::getpid());
  std::ifstream stat("/proc/self/stat");
  ::prctl(PR_SET_NAME, name);
  REQUIRE(process);
  CHECK(process->parent == ::getppid());
  CHECK(process->group == ::getpgrp());
  CHECK(process->session == ::getsid(0));
  std::string text;
  std::getline(stat, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // from the third on
  const std::vector<std::string> all{std::istream_iterator<std::string>(fields), {}};
  CHECK(std::to_string(process->id.start) == all.at(22 - 3));
  CHECK_FALSE(process_stat(0));
}

TEST_CASE("a signal reaches all descendants") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Family family;
  signal_descendants(OwnChildren{}, 0, SIGUSR1, soon());
  CHECK(end_of(family.child) == SIGUSR1);
  CHECK(end_of(family.grandchild) == SIGUSR1);
}

TEST_CASE("a walk of the tree is bounded, and the children get the signal even then") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Family family;
  signal_descendants(OwnChildren{}, 0, SIGUSR1, Clock::now());
  CHECK(end_of(family.child) == SIGUSR1);
  CHECK(::kill(family.grandchild, 0) == 0);
}

TEST_CASE("the process of an identity: here, ended, or not to be known from here") {
  Identity who = Identity::mine("");
  CHECK(find_process(who) == Presence::unknown);  // of an older version
  identify(who);
  REQUIRE(who.process);
  CHECK(find_process(who) == Presence::lives);
  Identity other = who;
  ++other.process->start;  // the pid is another's now
  CHECK(find_process(other) == Presence::ended);
  other = who;
  ++other.process->pid_namespace;
  CHECK(find_process(other) == Presence::unknown);
  other = who;
  other.host = "elsewhere";
  CHECK(find_process(other) == Presence::unknown);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  other = who;
  other.pid = child;
  CHECK(find_process(other) == Presence::ended);
}
