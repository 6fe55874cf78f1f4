// SPDX-License-Identifier: Apache-2.0
// The whole program: a job under get-lock or for-update outlives a kill -9 of dlock for a moment,
// and while it lives the lock is not granted to another.
#include <fcntl.h>
#include <sys/wait.h>
#include <csignal>
#include <cstdlib>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

bool alive(pid_t pid) { return ::kill(pid, 0) == 0; }

// dlock run with a job that ignores TERM and reports its pid.
struct Run {
  pid_t dlock = -1, job = -1;
  Run(const std::string& url, const char* recipe, const char* ttl) {
    int out[2];
    REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
    dlock = ::fork();
    if (dlock == 0) {
      ::dup2(out[1], 1);
      const char* program = std::getenv("DLOCK");
      ::execl(program, program, "run", "-q", "-b", url.c_str(), "--recipe", recipe, "--key", "k",
              "--ttl", ttl, "--", "sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done",
              nullptr);
      ::_exit(127);
    }
    ::close(out[1]);
    char text[32] = "";
    REQUIRE(::read(out[0], text, sizeof text - 1) > 0);
    ::close(out[0]);
    job = std::atoi(text);
    REQUIRE(job > 1);
  }
  int wait() {
    int status = 0;
    ::waitpid(dlock, &status, 0);
    return status;
  }
};

}  // namespace

TEST_CASE("kill -9 of dlock frees nothing while the job lives") {
  REQUIRE(std::getenv("DLOCK"));
  Database db{server()};
  for (const char* recipe : {"get-lock", "for-update", "lease", "insert", "version"})
    for (int round = 0; round < 3; ++round) {
      CAPTURE(recipe, round);
      const auto other = open_mysql(db.url(), {}, recipe);
      Run run{db.url(), recipe, "6s"};
      CHECK(other->inspect(key("k")).value().value().holders.size() == 1);
      auto w = waiter(*other, request(key("k"), 10s));
      CHECK(waits(*w));
      ::kill(run.dlock, SIGKILL);
      run.wait();
      const Deadline until = Clock::now() + 20s;
      for (bool granted = false; !granted && Clock::now() < until;) {
        const auto p = w->poll(1ms);
        REQUIRE(p);
        granted = std::holds_alternative<Granted>(*p);
        if (!granted) continue;
        // the job is asked for after the grant; alive now would mean alive at the grant
        CHECK_FALSE(alive(run.job));
        other->release(std::get<Granted>(*p).lease).value();
      }
      CHECK_FALSE(alive(run.job));
      // they end by their ttl
      if (round == 0 && std::string{recipe} != "get-lock" && std::string{recipe} != "for-update")
        break;
    }
}

TEST_CASE("the server ends the session: the job is stopped at once, and dlock says 123") {
  REQUIRE(std::getenv("DLOCK"));
  Database db{server()};
  for (const char* recipe : {"get-lock", "for-update"}) {
    CAPTURE(recipe);
    Run run{db.url(), recipe, "30s"};
    const auto id = db.value(recipe == std::string{"get-lock"}
                                 ? "SELECT conn FROM dlock_named WHERE owner<>''"
                                 : "SELECT conn FROM dlock_grant WHERE owner<>''");
    const Deadline before = Clock::now();
    db.sql("KILL " + id);
    const int status = run.wait();
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 123);
    CHECK(Clock::now() - before < 9s);  // --kill-after is 5 s: the job ignores TERM
    CHECK_FALSE(alive(run.job));
  }
}
