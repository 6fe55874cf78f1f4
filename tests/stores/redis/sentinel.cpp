// SPDX-License-Identifier: Apache-2.0
#include "groups.hpp"
#include "redis/wire/locator.hpp"
#include "stores/contention.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("sentinels: the master named by the majority") {
  SentinelGroup g;
  auto backend = open_redis(g.url(), quick(1s));
  const Key k = key("asked");
  const Lease lease = acquire_or_fail(*backend, request(k));
  CHECK(g.servers[0]->command({"EXISTS", "dlock:{asked}:fence"}).integer == 1);
  CHECK(kept(renewed(*backend, lease, 10s)));
  CHECK(answered([&] { return list(*backend); }).size() == 1);
  release_or_fail(*backend, lease);
  const auto seen = [&](const char* what) {
    const auto found = answered([&] { return backend->doctor(); });
    for (const Finding& f : found)
      if (f.what == what) return std::pair{f.level, f.seen};
    return std::pair{Finding::Level::unknown, std::string{}};
  };
  CHECK(seen("sentinels").first == Finding::Level::good);
  CHECK(seen("sentinels").second.starts_with("3 of 3 name"));
  CHECK(seen("replicas").second == "2");

  SECTION("one is unreachable: still enough") {
    g.sentinels[0]->kill();
    CHECK(seen("sentinels").first == Finding::Level::warning);
    CHECK(seen("sentinels").second.starts_with("2 of 3 name"));
    CHECK(kept(renewed(*backend, acquire_or_fail(*backend, request(k)), 10s)));
    auto fresh = open_redis(g.url(), quick(1s));
    CHECK(holders_of(*fresh, k) == 1);
  }
  SECTION("two are unreachable: nothing is granted, nothing is renewed") {
    const Lease held = acquire_or_fail(*backend, request(k));
    g.sentinels[0]->kill();
    g.sentinels[2]->freeze();
    // their last answers stay valid for so long
    ::usleep(useconds_t(redis::sentinels_count_for.count()));
    const auto renewal = backend->renew(held, 10s);
    REQUIRE_FALSE(renewal);
    CHECK(retryable(renewal.error().code));
    CHECK(renewal.error().message.find("majority of the sentinels") != std::string::npos);
    g.sentinels[2]->thaw();
    CHECK(kept(renewed(*backend, held, 10s)));
  }
  SECTION("one that names another server is outvoted") {
    RedisServer stranger;
    const auto liar = SentinelGroup::sentinel(fmt::format("127.0.0.1 {}", stranger.port()), 1);
    auto careful =
        open_redis(SentinelGroup::url_of({&*liar, &*g.sentinels[0], &*g.sentinels[1]}), quick(1s));
    acquire_or_fail(*careful, request(k));
    CHECK(stranger.command({"DBSIZE"}).integer == 0);
    auto torn = open_redis(SentinelGroup::url_of({&*liar, &*g.sentinels[0]}), quick(1s));
    const auto p = (*torn->enqueue(request(k)))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().message.find("1 of 2 name") != std::string::npos);
  }
  SECTION("one that has a password, as the server has another one") {
    done(*g.servers[0], {"CONFIG", "SET", "requirepass", "server"});
    for (auto& each : g.sentinels) done(*each, {"SENTINEL", "SET", "m", "auth-pass", "server"});
    done(*g.sentinels[0], {"ACL", "SETUSER", "default", "resetpass", ">theirs"});
    const std::string url = SentinelGroup::url_of({&*g.sentinels[0]});
    Settings s = quick(1s);
    s.password = "server";
    const auto p = (*open_redis(url, s)->enqueue(request(k)))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::denied);
    CHECK(p.error().message.find("DLOCK_SENTINEL_PASSWORD") != std::string::npos);
    s.sentinel_password = "theirs";
    acquire_or_fail(*open_redis(url, s), request(k));
  }
  SECTION("one that is taken for a server") {
    const auto wrong =
        open_redis(fmt::format("redis://127.0.0.1:{}", g.sentinels[0]->port()), quick(1s));
    const auto p = (*wrong->enqueue(request(k)))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::usage);
    CHECK(p.error().message.find("is a sentinel") != std::string::npos);
    CHECK(wrong->doctor().error().message.find("is a sentinel") != std::string::npos);
  }
  SECTION("a master name that they do not know") {
    auto wrong = open_redis(SentinelGroup::url_of({&*g.sentinels[0]}, "", "other"), quick(1s));
    const auto p = (*wrong->enqueue(request(k)))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::usage);
    CHECK(p.error().message.find("no master named other") != std::string::npos);
  }
}

TEST_CASE(
    "sentinels: failover under load: contenders continue, a holder whose grant was copied "
    "continues, tokens rise") {
  SentinelGroup g;
  const std::string url = g.url("?restart_grace=0&replicas=1");
  auto keeper = open_redis(url, quick(700ms));
  const Lease held = granted_within(**keeper->enqueue(request(key("steady"), 600s)));
  Contention clients{{.open = [&](unsigned) { return open_redis(url, quick(400ms)); },
                      .clients = 4,
                      .ttl = 3s,
                      .seed = Catch::rngSeed()}};
  eventually("grants before", [&] { return clients.grants() > 20; });
  const auto old = g.master_port();
  const long before = clients.grants();
  g.master().kill();
  g.wait_new_master(old);
  eventually("grants after", [&] { return clients.grants() > before + 20; });
  CHECK(kept(renewed(*keeper, held, 600s)));  // found at the new master
  CHECK(clients.violations() == "");
}

TEST_CASE(
    "sentinels: failover without the grant: overlap is possible, the holder is told, the token is "
    "higher") {
  SentinelGroup g;
  const Key k = key("forgotten");
  auto one = open_redis(g.url(), quick(1s)), two = open_redis(g.url(), quick(1s));
  g.servers[1]->freeze();
  g.servers[2]->freeze();
  g.servers[0]->command(
      // or the kernel would buffer for them what is written from now on
      {"CLIENT", "KILL", "TYPE", "replica"});
  const Lease first = acquire_or_fail(*one, request(k, 600s));
  const auto old = g.master_port();
  g.servers[0]->kill();
  g.servers[1]->thaw();
  g.servers[2]->thaw();
  g.wait_new_master(old);
  auto waiter = *two->enqueue(request(k, 600s));
  const Lease second = granted_within(*waiter);
  CHECK(Clock::now() < first.deadline);  // both believe that they hold: this is the stated weakness
  CHECK(second.token > first.token);
  CHECK(lost(renewed(*one, first, 600s)));
  CHECK(answered([&] { return one->release(first); }) == Released::was_not_held);
  const auto valid = [&](const Lease& l) {
    return answered([&] { return two->check(k, l.token); }) == Validity::valid;
  };
  CHECK(valid(second));
  CHECK_FALSE(valid(first));
}

TEST_CASE("sentinels: a deposed master that comes back grants and renews nothing") {
  SentinelGroup g;
  const Key k = key("deposed"), other = key("other");
  auto holder = open_redis(g.url(), quick(500ms)), waiting = open_redis(g.url(), quick(500ms));
  const Lease held = acquire_or_fail(*holder, request(k, 600s));
  auto waiter = *waiting->enqueue(request(k, 600s));
  REQUIRE(waits(*waiter, 100ms));
  REQUIRE(g.servers[0]->command({"WAIT", "2", "20000"}).integer == 2);
  // From here on it gets no message from the sentinels, and keeps acting as the master.
  REQUIRE(
      g.servers[0]
          ->command({"ACL", "SETUSER", "default", "-config", "-replicaof", "-slaveof", "-multi"})
          .text == "OK");
  const auto old = g.master_port();
  g.servers[0]->freeze();
  g.wait_new_master(old);
  g.servers[0]->thaw();
  REQUIRE(kept(renewed(*holder, held, 600s)));
  const auto at_old = [&](const char* command) {
    return g.servers[0]->command({command, "dlock:{other}:fence"});
  };
  REQUIRE(info_field(*g.servers[0], "replication", "role") == "master");
  acquire_or_fail(*open_redis(g.url(), quick(1s)), request(other));
  CHECK(at_old("EXISTS").integer == 0);
  CHECK(g.master().command({"EXISTS", "dlock:{other}:fence"}).integer == 1);
  release_or_fail(*holder, held);  // at the new one
  granted_within(*waiter);
}

TEST_CASE("sentinels: a silent first one does not delay the others") {
  SentinelGroup g;
  g.sentinels[0]->freeze();
  CHECK(ends_within(5s, [&] {  // a third of the 30 s would be its share
    auto backend = open_redis(g.url(), quick(30s, 30s));
    release_or_fail(*backend, acquire_or_fail(*backend, request(key("hung"))));
  }));
  auto backend = open_redis(g.url(), quick(30s, 30s));
  const Lease held = acquire_or_fail(*backend, request(key("hung"), 600s));
  CHECK(once_within(5s, [&] {
    ::usleep(useconds_t(redis::sentinels_count_for.count()));
    const Deadline again = Clock::now();
    CHECK(kept(renewed(*backend, held, 600s)));
    return Clock::now() - again;
  }));
  g.sentinels[0]->thaw();
}

TEST_CASE("sentinels: a password that they and the servers refuse is read again from its file") {
  SentinelGroup g;
  std::vector<RedisServer*> sentinels, all;
  for (auto& s : g.sentinels) sentinels.push_back(&*s);
  for (auto& s : g.servers) all.push_back(&*s);
  all.insert(all.end(), sentinels.begin(), sentinels.end());
  for (RedisServer* s : sentinels)  // they ask for a login
    REQUIRE(s->command({"ACL", "SETUSER", "default", "resetpass", ">another"}).text == "OK");
  ChangingPassword password{all};
  SECTION("a holder and a waiter") { change_password_while_held(g.url(), password); }
  SECTION("a list that is watched") {
    auto watcher = password.open(g.url());
    CHECK(list(*watcher));
    password.servers = sentinels;
    password.file.write("second");
    password.change("second");
    ::usleep(useconds_t(redis::sentinels_count_for.count()));  // then they are asked again
    CHECK(list(*watcher));
  }
}
