// SPDX-License-Identifier: Apache-2.0
#include "stores/file/traced.hpp"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include "contract/subject.hpp"

namespace dlock::contract {

Traced::Traced(const std::function<void(const std::function<void()>&)>& body) {
  std::fflush(stdout);
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    int status = 0;
    try {
      if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
      body([] { ::raise(SIGSTOP); });
    } catch (const std::exception& e) {
      std::printf("in the child: %s\n", e.what());
      std::fflush(stdout);
      status = 99;
    }
    ::_exit(status);
  }
  int status = 0;
  if (!await(status)) throw Skip{"the right to trace a child"};
  const bool halted = WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
  INFO("wait status " << status);
  REQUIRE(halted);
  REQUIRE(::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD) ==
          0);
}

Traced::~Traced() { kill(); }

// False: it could not be traced.
bool Traced::await(int& status) const {
  while (::waitpid(pid_, &status, 0) < 0) REQUIRE(errno == EINTR);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 77);
}

bool Traced::step() {
  if (ended_) return false;
  int status = 0;
  for (;;) {
    REQUIRE(::ptrace(PTRACE_SYSCALL, pid_, nullptr, nullptr) == 0);
    await(status);
    if (!WIFSTOPPED(status)) break;
    __ptrace_syscall_info halt{};
    REQUIRE(::ptrace(PTRACE_GET_SYSCALL_INFO, pid_, sizeof halt, &halt) > 0);
    if (halt.op == PTRACE_SYSCALL_INFO_ENTRY) return true;
  }
  ended_ = true;
  exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return false;
}

void Traced::kill() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  for (int status = 0; ::waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status);) {}
  ended_ = true;
}

int Traced::finish() {
  if (ended_) return exit_;
  REQUIRE(::ptrace(PTRACE_DETACH, pid_, nullptr, nullptr) == 0);
  int status = 0;
  await(status);
  ended_ = true;
  exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return exit_;
}

}  // namespace dlock::contract
