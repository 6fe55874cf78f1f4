// SPDX-License-Identifier: Apache-2.0
// dlock run, the real program: on frozen servers the job is dead before its lease can end; with a
// majority it goes on.
#include <fcntl.h>
#include <sys/wait.h>
#include <csignal>
#include <fstream>
#include <sstream>
#include "redlock_faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

class Run {
 public:
  Run(const std::string& url, const char* ttl) {
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::string job = fmt::format("echo $$ >{}/new && mv {}/new {}/pid && exec sleep 1000",
                                          dir_.path(), dir_.path(), dir_.path());
      const std::string events = dir_.path() + "/events";
      ::execl(DLOCK, DLOCK, "run", "-q", "-b", url.c_str(), "--key", "job", "--ttl", ttl,
              "--status", events.c_str(), "--", "sh", "-c", job.c_str(), nullptr);
      ::_exit(127);
    }
    REQUIRE(
        eventually(20s, [&] { return std::ifstream{dir_.path() + "/pid"} >> job_ && job_ > 0; }));
  }
  ~Run() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

  bool job_lives() const { return ::kill(job_, 0) == 0; }
  // Time of the last confirmation of the lease, in seconds of CLOCK_BOOTTIME.
  double confirmed() const {
    std::ifstream in{dir_.path() + "/events"};
    double last = 0;
    for (std::string line; std::getline(in, line);) {
      const auto t = line.find("\"t\":");
      if ((line.find("\"acquired\"") != line.npos || line.find("\"renewed\"") != line.npos) &&
          t != line.npos)
        last = std::stod(line.substr(t + 4));
    }
    return last;
  }
  int status() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  TestDirectory dir_;
  pid_t pid_ = -1, job_ = 0;
};

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

void ends_in_time(Run& run, double ttl, const std::function<void()>& freeze,
                  const std::function<void()>& thaw) {
  REQUIRE(eventually(10s, [&] { return run.confirmed() > 0; }));
  freeze();
  REQUIRE(eventually(20s, [&] { return !run.job_lives(); }));
  const double dead = now();
  const double confirmed = run.confirmed();
  CHECK(dead < confirmed + ttl);
  WARN("dead " << (confirmed + ttl - dead) << " s before the lease could end, " << dead - confirmed
               << " s after it was confirmed last");
  thaw();
  CHECK(run.status() == 123);
}

}  // namespace

TEST_CASE("run on one Redis: frozen, the job is dead before the lease can end") {
  RedisServer server;
  Run run{server.url() + "?restart_grace=0", "3s"};
  ends_in_time(
      run, 3, [&] { server.freeze(); }, [&] { server.thaw(); });
}

TEST_CASE(
    "run on five masters: with two frozen it goes on, with three frozen the job is dead before the "
    "lease can end") {
  RedlockMasters m;
  Run run{m.url(), "3s"};
  m.servers[1]->freeze();
  m.servers[4]->freeze();
  REQUIRE(eventually(10s, [&] { return run.confirmed() > 0; }));
  const double first = run.confirmed();
  CHECK(eventually(15s, [&] { return run.confirmed() > first + 3; }));  // for longer than the ttl
  CHECK(run.job_lives());
  ends_in_time(
      run, 3, [&] { m.servers[0]->freeze(); },
      [&] {
        for (const std::size_t i : {0, 1, 4}) m.servers[i]->thaw();
      });
}
