// SPDX-License-Identifier: Apache-2.0
// Sessions that are not what a client believes of them: resumed for less,
// unknown to a store that has lost its data.
#include <unistd.h>
#include <filesystem>
#include <memory>
#include "faults.hpp"
#include "support/proxy.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// Polled for at most that long.
bool granted(Waiter& w, Duration within) {
  for (const Deadline end = Clock::now() + within; Clock::now() < end;)
    if (const auto p = w.poll(100ms); p && std::holds_alternative<Granted>(*p)) return true;
  return false;
}

}  // namespace

TEST_CASE("a session that is resumed for less: its lease ends sooner, and why is said then") {
  CHECK(one_of_five([&] {
    ZookeeperServer server;
    const auto holder = open_zookeeper(server.url(), quick(2s, 10s));
    const Lease l = acquire_or_fail(*holder, request(key(), 60s));
    server.kill();
    server.configure("maxSessionTimeout=2000");
    server.start();

    Result<Renewal> answer = fail(Errc::internal, "");
    REQUIRE(becomes([&] {
      answer = holder->renew(l, 60s);
      // not before the lease is shorter
      if (!answer) REQUIRE(answer.error().code != Errc::usage);
      return answer.has_value();
    }));
    if (!kept(answer)) return false;  // a busy machine came back too late
    const Deadline counted = std::get<Kept>(*answer).lease.deadline;
    CHECK(counted <= Clock::now() + 2s);
    answer = holder->renew(l, 60s);
    return !answer && answer.error().message.find("last at most 2s") != std::string::npos;
  }));
}

TEST_CASE("servers that have lost their data: a waiter begins anew, when its session is over") {
  auto server = std::make_unique<ZookeeperServer>();
  const auto holder = open_zookeeper(server->url()), waiter = open_zookeeper(server->url());
  for (int i = 0; i < 3; ++i)
    release_or_fail(*holder, acquire_or_fail(*holder, request(key("other"))));
  acquire_or_fail(*holder, request(key(), 60s));
  const auto w = waiter->enqueue(request(key(), 2s)).value();
  CHECK(waits(*w, 50ms));
  const std::uint16_t port = server->port();
  server.reset();
  const ZookeeperServer empty{{.port = port}};
  CHECK(granted(*w, 60s));
}

TEST_CASE("servers that do not serve for long: a waiter keeps its place") {
  // A busy machine may let the waiter come back too late.
  CHECK(one_of_five([&] {
    ZookeeperServer server;
    Settings settings;
    settings.connect_timeout = 300ms;
    Proxy way{server.port()};
    const std::string url = "zookeeper://127.0.0.1:" + std::to_string(way.port());
    const auto holder = open_zookeeper(server.url(), settings),
               first = open_zookeeper(url, settings),
               second = open_zookeeper(server.url(), settings);
    const Lease l = acquire_or_fail(*holder, request(key(), 60s));
    const auto w = first->enqueue(request(key(), 2s)).value();
    CHECK(waits(*w, 50ms));
    const auto behind = second->enqueue(request(key(), 60s)).value();
    CHECK(waits(*behind, 50ms));
    server.kill();  // so the way to it accepts connections, and ends them
    for (const Deadline end = Clock::now() + 3s; Clock::now() < end;) (void)w->poll(100ms);
    server.start();
    CHECK_FALSE(granted(*w, 1s));
    release_or_fail(*holder, l);
    for (const Deadline end = Clock::now() + 60s; Clock::now() < end;) {
      if (granted(*w, 200ms)) return !granted(*behind, 200ms);
      if (granted(*behind, 10ms)) return false;
    }
    return false;
  }));
}

TEST_CASE("servers that were restored: the node of another with the czxid of ours is not ours") {
  ZookeeperServer server;
  const auto holder = open_zookeeper(server.url(), {}, "ephemeral");
  const Request r = request(key(), 60s);
  const auto write = [](Backend& b, Duration ttl) {
    release_or_fail(b, acquire_or_fail(b, request(key("other"), ttl)));
  };
  write(*holder, r.ttl);  // its session is older than the backup
  server.kill();
  const TestDirectory backup;
  const auto all = std::filesystem::copy_options::recursive;
  std::filesystem::copy(server.data(), backup.path() + "/data", all);
  server.start();
  // A session, and then a node: both histories write the same.
  const auto before = open_zookeeper(server.url(), {}, "ephemeral");
  CHECK_FALSE(before->inspect(key("other")).value());
  const Lease forgotten = acquire_or_fail(*holder, r);
  server.kill();
  std::filesystem::remove_all(server.data());
  std::filesystem::copy(backup.path() + "/data", server.data(), all);
  server.start();
  const auto other = open_zookeeper(server.url(), {}, "ephemeral");
  const Lease newer = acquire_or_fail(*other, request(key(), r.ttl));
  REQUIRE(newer.token == forgotten.token);
  for (int i = 0; i < 3; ++i) write(*other, r.ttl);  // now the holder may connect again

  CHECK(std::holds_alternative<Lost>(renewed(*holder, forgotten, r.ttl)));
  CHECK(holder->release(forgotten).value() == Released::was_not_held);
  CHECK(kept(other->renew(newer, r.ttl)));
}

TEST_CASE("what --min-hold keeps says how its job ended") {
  for (const char* recipe : all_recipes) {
    CAPTURE(recipe);
    const std::string url = place("?prefix=p/");
    const auto holder = open_zookeeper(url, patient(), recipe);
    const Lease l = acquire_or_fail(*holder, ask(60s));
    CHECK(kept(holder->detach(l, 40s, RunEnd{false, 3})));
    const auto view = answered([&] { return open_zookeeper(url, {}, recipe)->inspect(key()); });
    REQUIRE(view);
    REQUIRE(view->last_run);
    CHECK(view->last_run->token == l.token);
    CHECK(view->last_run->end.value == 3);
    CHECK(view->last_run->started <= view->last_run->ended);
    REQUIRE(view->holders.size() == 1);
    REQUIRE(view->holders.front().remaining);
    CHECK(*view->holders.front().remaining <= 40s);
    CHECK_FALSE(view->holders.front().ended());
  }
}
