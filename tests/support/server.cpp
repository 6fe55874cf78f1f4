// SPDX-License-Identifier: Apache-2.0
#include "support/server.hpp"
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include "util/fd.hpp"

namespace dlock::test {

bool installed(std::string_view program) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const std::string_view dir = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(dir.size() + 1, rest.size()));
    if (::access(fmt::format("{}/{}", dir, program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

int without(std::string_view program) {
  const char* ci = std::getenv("CI");
  const bool must = ci && std::string_view{ci} == "true";
  std::fprintf(stderr, "%s: %.*s is not installed\n", must ? "FAILED" : "SKIPPED",
               static_cast<int>(program.size()), program.data());
  return must ? 1 : skipped;
}

std::string data_place(bool durable) {
  const bool memory = !durable && ::access("/dev/shm", W_OK) == 0;
  return memory ? "/dev/shm" : std::filesystem::temp_directory_path().string();
}

namespace {

struct Ports {
  int first, last;
};

// None of those that the kernel gives to a bind to port 0 and to connections: another test could
// get that of a server that is not up yet, or is down for a while.
Ports ports_of_servers() {
  int low = 32768, high = 60999;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low >> high;
  for (const Ports p : {Ports{10000, low - 1}, Ports{high + 1, 65535}})
    if (p.last - p.first >= 1000) return p;
  return {10000, 65535};  // the kernel's are nearly all
}

bool bound(const Fd& fd, const void* name, std::size_t size) {
  return ::bind(fd.get(), static_cast<const sockaddr*>(name), static_cast<socklen_t>(size)) == 0;
}

// A name in the kernel keeps the port from the other tests until this process ends; ports.py has
// the same names.
bool reserve(std::uint16_t port) {
  Fd name{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const std::string text = fmt::format("dlock-test-port/{}", port);
  text.copy(at.sun_path + 1, text.size());
  if (!bound(name, &at, offsetof(sockaddr_un, sun_path) + 1 + text.size())) return false;
  const Fd probe{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  if (!bound(probe, &any, sizeof any)) return false;
  (void)name.release();
  return true;
}

}  // namespace

std::uint16_t free_port() {
  const Ports all = ports_of_servers();
  const int count = all.last - all.first + 1;
  const auto begin = static_cast<int>(std::random_device{}() % static_cast<unsigned>(count));
  for (int i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(all.first + (begin + i) % count);
    if (reserve(port)) return port;
  }
  throw std::runtime_error("no free port");
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::trunc);
  if (!(out << text).flush()) throw std::runtime_error("cannot write " + path);
}

pid_t start_server(const std::vector<std::string>& words, const ServerStart& how) {
  std::vector<char*> argv;
  for (const auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  // Before the next line, as a change of user would undo it.
  if (const passwd* u = how.user;
      u && (::setgroups(0, nullptr) != 0 || ::setgid(u->pw_gid) != 0 || ::setuid(u->pw_uid) != 0))
    ::_exit(1);
  ::prctl(PR_SET_PDEATHSIG, how.dies_by);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::getppid() != parent) ::_exit(1);
  ::setpgid(0, 0);
  for (const auto& e : how.environment) ::putenv(const_cast<char*>(e.c_str()));
  const int null = ::open("/dev/null", O_RDWR);
  const int out =
      how.log.empty() ? null : ::open(how.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(null, 0);
  ::dup2(out, 1);
  ::dup2(out, 2);
  ::close_range(3, ~0U, 0);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

ServerProcess& ServerProcess::operator=(ServerProcess&& o) noexcept {
  std::swap(pid_, o.pid_);
  return *this;
}

bool ServerProcess::ended() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ <= 0;
}

void ServerProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void ServerProcess::freeze() {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
}

void ServerProcess::thaw() { ::kill(pid_, SIGCONT); }

}  // namespace dlock::test
