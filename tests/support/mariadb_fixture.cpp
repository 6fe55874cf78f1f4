// SPDX-License-Identifier: Apache-2.0
// mariadb_fixture start|stop DIR: one server for all tests of a ctest run. A watcher process ends
// it with ctest or at `stop`.
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include "support/mariadb_server.hpp"

namespace fs = std::filesystem;
using namespace dlock::test;

namespace {

int stop(const std::string& dir) {
  std::FILE* f = std::fopen((dir + "/watcher").c_str(), "re");
  int pid = 0;
  if (!f || std::fscanf(f, "%d", &pid) != 1) pid = 0;
  if (f) std::fclose(f);
  // The directory goes last, when the server is dead.
  if (pid > 1) ::kill(pid, SIGTERM);
  for (int i = 0; i < 1000 && pid > 1 && fs::exists(dir); ++i) ::usleep(10'000);
  std::error_code ignored;
  fs::remove_all(dir, ignored);
  return 0;
}

[[noreturn]] void watch(const std::string& dir, int ctest) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, nullptr);
  try {
    MariadbServer server({.directory = dir});
    std::fclose(std::fopen((dir + "/ready").c_str(), "we"));
    for (;;) {
      pollfd p{ctest, POLLIN, 0};
      if (::poll(&p, 1, 100) > 0) break;
      timespec none{};
      if (::sigtimedwait(&term, nullptr, &none) == SIGTERM) break;
    }
  } catch (const std::exception& e) { std::fprintf(stderr, "%s\n", e.what()); }
  std::error_code ignored;
  fs::remove_all(dir, ignored);
  std::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const std::string dir = argv[2];
  if (std::strcmp(argv[1], "stop") == 0) return stop(dir);
  if (!mariadb_installed()) return 0;  // each test reports it
  stop(dir);
  fs::create_directories(dir);
  const int ctest = static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0));
  const pid_t watcher = ::fork();
  if (watcher == 0) {
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    watch(dir, ctest);
  }
  std::FILE* f = std::fopen((dir + "/watcher").c_str(), "we");
  std::fprintf(f, "%d\n", static_cast<int>(watcher));
  std::fclose(f);
  for (int i = 0; i < 6000; ++i, ::usleep(10'000)) {
    if (fs::exists(dir + "/ready")) return 0;
    if (!fs::exists(dir)) break;
  }
  std::fprintf(stderr, "mariadbd did not start\n");
  return 1;
}
