// SPDX-License-Identifier: Apache-2.0
// The program: what inspect and release say of a server that may have forgotten a lock.
#include "faults.hpp"
#include "program.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// A grace that outlasts the test on any machine.
std::string patient(const RedisServer& server) { return server.url() + "?restart_grace=10m"; }

Ran inspect(const RedisServer& server, std::vector<std::string> words) {
  words.insert(words.begin(), {"inspect", "-b", patient(server)});
  return dlock_with(words);
}

}  // namespace

TEST_CASE("forgotten: inspect says ?, until when nothing is granted, and 69") {
  RedisServer server;
  const Ran one = inspect(server, {"k"});
  INFO(one.printed << one.said);
  CHECK(one.status == 69);
  CHECK(has(one.printed, "state    ?, nothing is granted for"));
  CHECK_FALSE(has(one.printed, "free"));
  CHECK(has(one.said, "dlock: k: nothing is granted for"));

  const Ran json = inspect(server, {"-J", "k"});
  INFO(json.printed);
  CHECK(json.status == 69);
  CHECK(has(json.printed, "\"key\":\"k\",\"state\":\"unknown\""));
  CHECK(has(json.printed, "\"error\":\"nothing is granted for"));
  CHECK(has(json.printed, "\"complete\":false"));

  for (const std::vector<std::string>& list :
       {std::vector<std::string>{}, {"k*"}, {"--held"}, {"-J"}, {"-J", "k*"}}) {
    const Ran ran = inspect(server, list);
    INFO(ran.printed << ran.said);
    CHECK(ran.status == 69);
    CHECK(has(ran.printed, list.empty() || list[0] != "-J" ? "0 keys" : "\"keys\":[]"));
    CHECK(has(ran.said, "keys may be missing here"));
  }
  for (const char* what : {"k", "k*"}) {
    const Ran ran = inspect(server, {"--check", what});
    CHECK(ran.status == 69);
    CHECK(ran.printed.empty());
  }
  CHECK(inspect(server, {"--csv", "--no-heading", "-o", "key,state", "k"}).printed == "k,?\n");
  for (const std::vector<std::string>& how : {std::vector<std::string>{"--revoke", "--if-held"},
                                              {"--revoke", "--wait", "1s"},
                                              {"--force", "--yes", "--if-held"},
                                              {"--force", "--token", "7"},
                                              {"--force"}}) {
    std::vector<std::string> words{"release", "-b", patient(server), "--key", "k"};
    words.insert(words.end(), how.begin(), how.end());
    const Ran ran = dlock_with(words);
    INFO(ran.said);
    CHECK(ran.status == 69);
    CHECK(has(ran.said, "nothing is granted for"));
  }
}

TEST_CASE("forgotten: inspect shows a holder that is found in the grace") {
  RedisServer server{{.config = {"appendonly yes", "appendfsync always"}, .uptime = an_hour}};
  acquire_or_fail(*open_redis(server.url()), request(key("k"), 30s));
  server.restart();
  const Ran one = inspect(server, {"k"});
  INFO(one.printed << one.said);
  CHECK(one.status == 0);
  CHECK(has(one.printed, "state    held"));
  CHECK(has(one.printed, "nothing is granted for"));
  CHECK(inspect(server, {"--check", "k"}).status == 75);
  CHECK(inspect(server, {"--check", "k*"}).status == 75);
  const Ran all = inspect(server, {});
  CHECK(all.status == 69);
  CHECK(has(all.printed, "1 key, 1 held"));
}

TEST_CASE("forgotten: --revoke --wait does not take lost data for the end of a job") {
  RedisServer server{{.uptime = an_hour}};
  auto backend = open_redis(server.url());
  const Key k = key("k");
  const auto asked = [&] {
    acquire_or_fail(*backend, request(k, 30s));
    Process p = Process::start({.argv = {program_from("DLOCK"), "release", "-b", server.url(),
                                         "--key", "k", "--revoke", "--wait", "8s"}});
    const auto is_asked = [&] {
      const auto seen = backend->inspect(k).value();
      return seen && !seen->holders.empty() && seen->holders[0].revoked;
    };
    for (const Deadline end = later(Clock::now(), 30s); !is_asked() && Clock::now() < end;)
      ::usleep(5000);
    REQUIRE(is_asked());
    return p;
  };
  const auto status = [](Process& p) {
    const auto ended = p.wait(60);
    return ended && WIFEXITED(*ended) ? WEXITSTATUS(*ended) : -1;
  };
  {
    Process waits = asked();
    CHECK(backend->force_release(k, std::nullopt) == Released::yes);
    CHECK(status(waits) == 0);
  }
  {
    Process waits = asked();
    server.command({"FLUSHALL"});
    CHECK(status(waits) == 69);
  }
  {
    Process waits = asked();
    server.restart();
    CHECK(status(waits) == 69);
  }
}
