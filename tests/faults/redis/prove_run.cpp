// SPDX-License-Identifier: Apache-2.0
// Whole processes: the time of a dlock run, and the memory of waiters.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>
#include "prove.hpp"

namespace dlock::prove {
namespace {

// From the start of a process to its end.
double run_ms(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const auto began = Clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error(fmt::format("{}: status {}", words[0], status));
  return seconds(Clock::now() - began) * 1e3;
}

long pss_of(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/smaps_rollup", pid);
  long kib = 0;
  if (std::FILE* f = std::fopen(path.c_str(), "re")) {
    char line[256];
    while (std::fgets(line, sizeof line, f))
      if (std::sscanf(line, "Pss: %ld", &kib) == 1) break;
    std::fclose(f);
  }
  return kib;
}

// Of a process and its descendants that run the same program (dlock and its guard), while `words`
// wait.
long pss_kib(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::usleep(700'000);  // it has allocated what it needs, and waits
  const auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid));
  long sum = pss_of(pid);
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    const pid_t other = std::atoi(entry.path().filename().c_str());
    std::error_code gone;
    if (other <= 0 || other == pid ||
        std::filesystem::read_symlink(entry.path() / "exe", gone) != program)
      continue;
    std::FILE* f = std::fopen((entry.path() / "stat").c_str(), "re");
    int parent = 0;
    if (f && std::fscanf(f, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent == pid)
      sum += pss_of(other);
    if (f) std::fclose(f);
  }
  ::kill(pid, SIGTERM);
  ::waitpid(pid, nullptr, 0);
  return sum;
}

}  // namespace

// `dlock run` as a process, compared with redis-cli PING, and with etcdctl lock on an etcd of its
// own.
void processes(RedisServer& server, int n) {
  const std::string port = std::to_string(server.port()), url = server.url() + "?restart_grace=0";
  std::vector<std::pair<std::string, std::vector<std::string>>> programs{
      {"redis-cli PING", {"redis-cli", "-p", port, "PING"}},
      {"dlock run -- true", {DLOCK, "run", "-q", "-b", url, "--key", "start", "--", "true"}}};
  std::vector<std::pair<std::string, std::vector<std::string>>> waiting{
      {"redis-cli PING", {"redis-cli", "-p", port, "BLPOP", "nothing", "5"}},
      {"dlock run -- true",
       {DLOCK, "run", "-q", "-b", url, "--key", "memory", "--", "sleep", "5"}}};
  TestDirectory directory;
  pid_t etcd = -1;
  if (installed("etcd") && installed("etcdctl")) {
    const std::string client = fmt::format("http://127.0.0.1:{}", free_port()),
                      peer = fmt::format("http://127.0.0.1:{}", free_port());
    etcd = ::fork();
    if (etcd == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int null = ::open("/dev/null", O_RDWR);
      for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
      ::execlp("etcd", "etcd", "--data-dir", directory.path().c_str(), "--listen-client-urls",
               client.c_str(), "--advertise-client-urls", client.c_str(), "--listen-peer-urls",
               peer.c_str(), "--initial-advertise-peer-urls", peer.c_str(), "--initial-cluster",
               ("default=" + peer).c_str(), nullptr);
      ::_exit(127);
    }
    ::setenv("ETCDCTL_API", "3", 1);
    programs.push_back(
        {"etcdctl lock -- true", {"etcdctl", "--endpoints", client, "lock", "start", "true"}});
    waiting.push_back({"etcdctl lock -- true",
                       {"etcdctl", "--endpoints", client, "lock", "memory", "sleep", "5"}});
    for (int i = 0; i < 100; ++i) try {
        run_ms(programs.back().second);
        break;
      } catch (const std::exception&) { ::usleep(100'000); }
  } else {
    fmt::print("etcdctl lock: not tested (etcd is not installed)\n");
  }
  std::map<std::string, std::vector<double>> took;
  for (int i = 0; i < n; ++i)
    for (const auto& [name, words] : programs) took[name].push_back(run_ms(words));
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto& all = took[programs[i].first];
    fmt::print("process {}: {:.2f} ms (p50 of {}), PSS {} KiB\n", programs[i].first,
               quantile(all, 0.5), n, pss_kib(waiting[i].second));
  }
  if (etcd > 0) {
    ::kill(etcd, SIGKILL);
    ::waitpid(etcd, nullptr, 0);
  }
}

}  // namespace dlock::prove
