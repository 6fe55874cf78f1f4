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
  CHECK(kept(backend->renew(lease, 10s)));
  CHECK(list(*backend).value().size() == 1);
  CHECK(backend->release(lease) == Released::yes);
  const auto seen = [&](const char* what) {
    const auto found = backend->doctor().value();
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
    CHECK(kept(backend->renew(acquire_or_fail(*backend, request(k)), 10s)));
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
    CHECK(kept(backend->renew(held, 10s)));
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
  const Lease held = granted_within(**keeper->enqueue(request(key("steady"), 20s)), 10s);
  Contention clients{{.open = [&](unsigned) { return open_redis(url, quick(400ms)); },
                      .clients = 4,
                      .ttl = 3s,
                      .seed = Catch::rngSeed()}};
  eventually("grants before", 10s, [&] { return clients.grants() > 20; });
  const auto old = g.master_port();
  const long before = clients.grants();
  g.master().kill();
  g.wait_new_master(old);
  eventually("grants after", 20s, [&] { return clients.grants() > before + 20; });
  Result<Renewal> renewal = keeper->renew(held, 20s);
  for (const Deadline until = Clock::now() + 5s; !renewal && Clock::now() < until;)
    renewal = keeper->renew(held, 20s);
  CHECK(kept(renewal));  // found at the new master
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
  const Lease first = acquire_or_fail(*one, request(k, 30s));
  const auto old = g.master_port();
  g.servers[0]->kill();
  g.servers[1]->thaw();
  g.servers[2]->thaw();
  g.wait_new_master(old);
  auto waiter = *two->enqueue(request(k, 30s));
  const Lease second = granted_within(*waiter, 10s);
  CHECK(Clock::now() < first.deadline);  // both believe that they hold: this is the stated weakness
  CHECK(second.token > first.token);
  Result<Renewal> renewal = one->renew(first, 30s);
  for (const Deadline until = Clock::now() + 5s; !renewal && Clock::now() < until;)
    renewal = one->renew(first, 30s);
  CHECK(lost(renewal));
  CHECK(one->release(first) == Released::was_not_held);
  CHECK(two->check(k, second.token) == Validity::valid);
  CHECK(two->check(k, first.token) == Validity::stale);
}

TEST_CASE("sentinels: a deposed master that comes back grants and renews nothing") {
  SentinelGroup g;
  const Key k = key("deposed"), other = key("other");
  auto holder = open_redis(g.url(), quick(500ms)), waiting = open_redis(g.url(), quick(500ms));
  const Lease held = acquire_or_fail(*holder, request(k, 60s));
  auto waiter = *waiting->enqueue(request(k, 60s));
  REQUIRE(waiter->poll(100ms));
  REQUIRE(g.servers[0]->command({"WAIT", "2", "3000"}).integer == 2);
  // From here on it gets no message from the sentinels, and keeps acting as the master.
  REQUIRE(
      g.servers[0]
          ->command({"ACL", "SETUSER", "default", "-config", "-replicaof", "-slaveof", "-multi"})
          .text == "OK");
  const auto old = g.master_port();
  g.servers[0]->freeze();
  g.wait_new_master(old);
  g.servers[0]->thaw();
  Result<Renewal> renewal = holder->renew(held, 60s);
  for (const Deadline until = Clock::now() + 10s; !renewal && Clock::now() < until;)
    renewal = holder->renew(held, 60s);
  REQUIRE(kept(renewal));
  const auto at_old = [&](const char* command) {
    return g.servers[0]->command({command, "dlock:{other}:fence"});
  };
  REQUIRE(info_field(*g.servers[0], "replication", "role") == "master");
  acquire_or_fail(*open_redis(g.url(), quick(1s)), request(other));
  CHECK(at_old("EXISTS").integer == 0);
  CHECK(g.master().command({"EXISTS", "dlock:{other}:fence"}).integer == 1);
  CHECK(holder->release(held) == Released::yes);  // at the new one
  granted_within(*waiter, 10s);
}

TEST_CASE("sentinels: a silent first one does not delay the others") {
  SentinelGroup g;
  g.sentinels[0]->freeze();
  const Deadline began = Clock::now();
  auto backend = open_redis(g.url(), quick(5s, 30s));
  const Lease held = acquire_or_fail(*backend, request(key("hung")));
  CHECK(Clock::now() - began < 5s);  // a third of the 30 s would be its share
  WARN("granted after " << (Clock::now() - began) / 1ms << " ms");
  ::usleep(useconds_t(redis::sentinels_count_for.count()));
  const Deadline again = Clock::now();
  CHECK(kept(backend->renew(held, 10s)));
  CHECK(Clock::now() - again < 5s);
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
