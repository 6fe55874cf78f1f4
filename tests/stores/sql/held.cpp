// SPDX-License-Identifier: Apache-2.0
// Recipes whose lock belongs to a session.
#include <csignal>
#include <cstdlib>
#include "faults.hpp"
#include "support/dlock_run.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

bool alive(pid_t pid) { return ::kill(pid, 0) == 0; }

// With a job that ignores TERM and reports its pid and its parent's.
struct Resisting {
  Run run;
  pid_t job, guard;
  Resisting(const std::string& url, const char* recipe)
      : run(url, {"-q", "--recipe", recipe, "--ttl", "60s", "--kill-after", "1s"},
            {"sh", "-c", "trap '' TERM; echo $$; echo $PPID; while :; do sleep 0.05; done"}),
        job(std::atoi(run.next_line().c_str())),
        guard(std::atoi(run.next_line().c_str())) {
    REQUIRE(guard > 1);
  }
};

}  // namespace

TEST_CASE("session: the server ends it: lost at once; the next has the lock (the weakness)") {
  Db db{server()};
  for (const char* recipe : session_recipes) {
    CAPTURE(recipe);
    const std::string url = url_of(db.url(), db, recipe);
    const auto a = open_recipe(url, patient(), recipe), b = open_recipe(url, patient(), recipe);
    const Granted g = take_all(*a, request(key("k"), 30s));
    CHECK_FALSE(readable(g.alarm_fd, 0));
    auto w = waiter(*b, request(key("k"), 30s));
    REQUIRE(waits(*w, 50ms));
    kill_session(db, holders_session(db, recipe));
    CHECK(readable(g.alarm_fd, 30'000));
    CHECK(lost(renewed(*a, g.lease, 30s)));
    CHECK(lost(renewed(*a, g.lease, 30s)));
    CHECK(granted_within(*w, 60s).token > g.lease.token);
    CHECK(a->release(g.lease).value() == Released::was_not_held);
  }
}

TEST_CASE("session: its ttl is the lease: heartbeats keep it, silence ends it, and not early") {
  Db db{server()};
  for (const char* recipe : session_recipes) {
    CAPTURE(recipe);
    const std::string url = url_of(db.url(), db, recipe);
    const auto a = open_recipe(url, patient(), recipe), b = open_recipe(url, patient(), recipe);
    constexpr Duration ttl = 3s;
    const auto w = waiter(*b, request(key("k"), 30s));
    // An attempt counts if this process got its turns in time.
    const auto attempt = [&] {
      const Granted g = take_all(*a, request(key("k"), ttl));
      Deadline end = g.lease.deadline;
      for (const Deadline until = Clock::now() + ttl + 1s; Clock::now() < until;) {
        const auto p = w->poll(ttl / 8);
        const auto r = a->renew(g.lease, ttl);
        if (Clock::now() >= end) return false;
        if (p) CHECK(std::holds_alternative<Waiting>(*p));
        if (!r) continue;
        REQUIRE(kept(r));
        end = std::get<Kept>(*r).lease.deadline;
      }
      granted_within(*w, 60s);
      CHECK(Clock::now() >= end);
      CHECK(lost(renewed(*a, g.lease, ttl)));
      return true;
    };
    bool judged = attempt();
    for (int i = 0; !judged && i < 20; ++i) {
      CHECK(w->cancel());
      kill_sessions(db);
      judged = attempt();
    }
    CHECK(judged);
  }
}

TEST_CASE("session: a heartbeat without an answer changes nothing; a cut connection ends it") {
  Db db{server()};
  Proxy proxy{server().port()};
  for (const char* recipe : session_recipes) {
    CAPTURE(recipe);
    const auto a = open_recipe(url_of(through(proxy, db), db, recipe), quick(300ms), recipe);
    const Granted g = take_all(*a, request(key("k"), 100s));
    proxy.stall(Proxy::to_client, true);
    for (int i = 0; i < 2; ++i) {
      const auto r = a->renew(g.lease, 100s);
      REQUIRE_FALSE(r);
      CHECK(r.error().code == Errc::timed_out);
    }
    proxy.stall(Proxy::to_client, false);
    CHECK(becomes([&] {
      const auto again = a->renew(g.lease, 100s);
      REQUIRE_FALSE(lost(again));
      return kept(again);
    }));
    proxy.cut();
    CHECK(readable(g.alarm_fd, 30'000));
    CHECK(lost(renewed(*a, g.lease, 100s)));
    kill_sessions(db);
  }
}

TEST_CASE("session: a server that dies: the lock is lost, and the next token is greater") {
  Server own{{.on_disk = true}};
  Db db{own};
  for (const char* recipe : session_recipes) {
    CAPTURE(recipe);
    const auto a = open_recipe(db.url(), patient(), recipe),
               b = open_recipe(db.url(), patient(), recipe);
    const Granted g = take_all(*a, request(key("k"), 30s));
    auto w = waiter(*b, request(key("k"), 30s));
    REQUIRE(waits(*w, 50ms));
    own.restart();
    CHECK(readable(g.alarm_fd, 30'000));
    CHECK(lost(renewed(*a, g.lease, 30s)));
    CHECK(granted_within(*w, 60s).token > g.lease.token);
  }
}

// Its guard is stopped meanwhile, or it would be quicker than a server that frees too early.
TEST_CASE("kill -9 of dlock frees nothing while the job lives") {
  Db db{server()};
  for (const char* recipe : session_recipes) {
    CAPTURE(recipe);
    const auto other = open_recipe(db.url(), patient(), recipe);
    Resisting it{db.url(), recipe};  // nothing of it ends while the guard is frozen
    CHECK(other->inspect(key("k")).value().value().holders.size() == 1);
    auto w = waiter(*other, request(key("k"), 10s));
    CHECK(waits(*w));
    {
      const Frozen guard{it.guard};
      it.run.signal(SIGKILL);
      it.run.end();
      CHECK(waits(*w, 500ms));
      CHECK(alive(it.job));
    }
    granted_within(*w, 60s);
    CHECK_FALSE(alive(it.job));
  }
}

TEST_CASE("session: the server ends it: the job is stopped at once, and dlock says 123") {
  Db db{server()};
  for (const char* recipe : session_recipes) {
    CAPTURE(recipe);
    Resisting it{db.url(), recipe};
    const Deadline before = Clock::now();
    kill_session(db, holders_session(db, recipe));
    CHECK(it.run.end() == "exit 123");
    CHECK(Clock::now() - before < 40s);  // the lease would last for 60
    CHECK_FALSE(alive(it.job));
  }
}
