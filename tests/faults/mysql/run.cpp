// SPDX-License-Identifier: Apache-2.0
// The whole program: a job under get-lock or for-update outlives a kill -9 of dlock for a moment,
// and while it lives the lock is not granted to another.
#include <csignal>
#include <cstdlib>
#include "faults.hpp"
#include "support/dlock_run.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

bool alive(pid_t pid) { return ::kill(pid, 0) == 0; }

// With a job that ignores TERM and reports its pid.
struct Resisting {
  Run run;
  pid_t job;
  Resisting(const std::string& url, const char* recipe, const char* ttl)
      : run(url, {"-q", "--recipe", recipe, "--ttl", ttl},
            {"sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done"}),
        job(std::atoi(run.next_line().c_str())) {
    REQUIRE(job > 1);
  }
};

}  // namespace

TEST_CASE("kill -9 of dlock frees nothing while the job lives") {
  Database db{server()};
  for (const char* recipe : {"get-lock", "for-update", "lease", "insert", "version"})
    for (int round = 0; round < 3; ++round) {
      CAPTURE(recipe, round);
      const auto other = open_mysql(db.url(), {}, recipe);
      Resisting it{db.url(), recipe, "6s"};
      CHECK(other->inspect(key("k")).value().value().holders.size() == 1);
      auto w = waiter(*other, request(key("k"), 10s));
      CHECK(waits(*w));
      it.run.signal(SIGKILL);
      it.run.end();
      const Deadline until = Clock::now() + 20s;
      for (bool granted = false; !granted && Clock::now() < until;) {
        const auto p = w->poll(1ms);
        REQUIRE(p);
        granted = std::holds_alternative<Granted>(*p);
        if (!granted) continue;
        // the job is asked for after the grant; alive now would mean alive at the grant
        CHECK_FALSE(alive(it.job));
        other->release(std::get<Granted>(*p).lease).value();
      }
      CHECK_FALSE(alive(it.job));
      // they end by their ttl
      if (round == 0 && std::string{recipe} != "get-lock" && std::string{recipe} != "for-update")
        break;
    }
}

TEST_CASE("the server ends the session: the job is stopped at once, and dlock says 123") {
  Database db{server()};
  for (const char* recipe : {"get-lock", "for-update"}) {
    CAPTURE(recipe);
    Resisting it{db.url(), recipe, "30s"};
    const auto id = db.value(recipe == std::string{"get-lock"}
                                 ? "SELECT conn FROM dlock_named WHERE owner<>''"
                                 : "SELECT conn FROM dlock_grant WHERE owner<>''");
    const Deadline before = Clock::now();
    db.sql("KILL " + id);
    CHECK(it.run.end() == "exit 123");
    CHECK(Clock::now() - before < 9s);  // --kill-after is 5 s: the job ignores TERM
    CHECK_FALSE(alive(it.job));
  }
}
