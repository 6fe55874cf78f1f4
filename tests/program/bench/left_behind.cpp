// SPDX-License-Identifier: Apache-2.0
// What `dlock bench` leaves in a store: nothing, however it ends; and data of others is not
// touched.
#include <catch2/catch.hpp>
#include <csignal>
#include "bench_run.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

std::vector<std::string> recipes(const Store& s) {
  std::vector<std::string> all;
  for (const Traits& t : s.factory().recipes) all.emplace_back(t.recipe);
  return all;
}

}  // namespace

TEST_CASE("after a bench of all recipes the store is as it was") {
  const auto store = make_store();
  store->plant();
  const auto before = store->everything();
  Dlock run(bench(*store, {"--recipe", "all", "--scenario",
                           "uncontended,handoff,shared,limit,renew", "-N", "30"}));
  CHECK(run.end() == "exit 0");
  CHECK(run.out.find("still there") == run.out.npos);
  CHECK(store->everything() == before);

  Dlock crash(bench(*store, {"--scenario", "crash", "--ttl", "2s"}));
  CHECK(crash.end() == "exit 0");
  CHECK(store->everything() == before);
}

TEST_CASE("after Ctrl-C the store is as it was") {
  const auto store = make_store();
  store->plant();
  const auto before = store->everything();
  for (const std::string& recipe : recipes(*store)) {
    INFO(recipe);
    for (const char* scenario : {"handoff", "renew"}) {
      Dlock run(
          bench(*store, {"--recipe", recipe, "--scenario", scenario, "-d", "1h", "-P", "20ms"}));
      run.progress(std::string(" ") + scenario + "  ");
      run.signal(SIGINT);
      CHECK(run.end() == "signal 2 (INT)");
      CHECK(run.out.find("still there") == run.out.npos);
      CHECK(store->everything() == before);
    }
    Dlock run(bench(*store, {"--recipe", recipe, "--scenario", "crash", "-P", "1s"}));
    run.progress(" crash 1/3");
    // the one that is to be killed has the lock
    CHECK(becomes([&] { return store->everything() != before; }));
    run.signal(SIGINT);
    CHECK(run.end() == "signal 2 (INT)");
    CHECK(run.out.find("still there") == run.out.npos);
    CHECK(store->everything() == before);
  }
}

TEST_CASE("after an error the store is as it was") {
  const auto store = make_store();
  store->plant();
  const auto before = store->everything();
  for (const std::string& recipe : recipes(*store)) {
    INFO(recipe);
    Dlock run(bench(*store, {"--recipe", recipe, "--scenario", "renew", "-d", "1h", "-P", "20ms"}));
    run.progress(" renew  ");
    // The client may not have taken this lease yet, or not have heard of it: then it is not lost.
    for (int tries = 0; !run.ended_within(0.2); ++tries) {
      REQUIRE(tries < 200);
      Dlock release({"release", "-b", store->url("b-"), "--recipe", recipe, "--key", "0-renew-1-3",
                     "--force", "--yes", "-q"});
      const std::string how = release.end();
      CHECK((how == "exit 0" || how == "exit 75"));
    }
    CHECK(run.end().starts_with("exit "));
    CHECK(run.said().find("a lease was lost") != std::string::npos);
    CHECK(run.said().find("still there") == std::string::npos);
    CHECK(store->everything() == before);
  }
}

TEST_CASE("a prefix with a key below it is refused, and the key stays held") {
  for (const std::string& recipe : recipes(*make_store())) {
    INFO(recipe);
    const auto store = make_store();
    store->plant();
    Pipe ready;
    Process holder =
        Process::start({.argv = {DLOCK, "run", "-b", store->url("b-"), "--recipe", recipe, "--key",
                                 "mine", "-q", "--", "sh", "-c", "echo; exec sleep 1000"},
                        .env = {},
                        .fds = {{1, ready.write_end.get()}}});
    ready.write_end.reset();
    Lines said(std::move(ready.read_end));
    REQUIRE(said.next(100));
    Dlock run(bench(*store, {"--recipe", recipe, "-d", "100ms"}));
    CHECK(run.end() == "exit 64");
    CHECK(run.said().find("--prefix") != std::string::npos);
    CHECK(run.said().find("'mine'") != std::string::npos);
    Dlock check({"inspect", "-b", store->url("b-"), "--recipe", recipe, "--check", "mine"});
    CHECK(check.end() == "exit 75");
    holder.signal(SIGTERM);
    CHECK(describe(holder.wait(100)) == "signal 15 (TERM)");
  }
}
