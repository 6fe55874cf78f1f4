// SPDX-License-Identifier: Apache-2.0
// Recipe `fair` on a real server, beyond the contract of every backend.
#include <fmt/format.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include "redis/fair/fair_backend.hpp"
#include "support/redis_client.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

TEST_CASE("a script runs few commands, by the server's own count") {
  RedisServer server;
  const auto backend = open_redis(server.url() + "?restart_grace=0");
  const Key key = *Key::parse("inside");
  const auto count = [&] {
    std::uint64_t all = 0;
    for (const char* command : {"time", "hgetall", "hmget", "hset", "hdel", "pexpire", "zadd",
                                "zrange", "zcard", "zscore"}) {
      const std::string text =
          info_field(server, "commandstats", fmt::format("cmdstat_{}", command));
      if (text.starts_with("calls=")) all += std::stoull(text.substr(6));
    }
    return all;
  };
  Lease lease = acquire_or_fail(*backend, request(key));  // connected, the script is known
  const auto renew = [&] { REQUIRE(backend->renew(lease, 10s)); };
  const auto again = [&] {
    release_or_fail(*backend, lease);
    lease = acquire_or_fail(*backend, request(key));
  };
  renew();
  again();
  const std::uint64_t before = count();
  for (int i = 0; i < 10; ++i) renew();
  CHECK(count() == before + 10 * 4);
  for (int i = 0; i < 10; ++i) again();
  CHECK(count() == before + 10 * 4 + 10 * 6);
}

TEST_CASE("only the fence stays, and it expires 90 days after the last grant") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0");
  const Key key = *Key::parse("a key/with {braces} and ümlauts");
  const Lease held = acquire_or_fail(*backend, request(key));
  auto other = open_redis(server.url() + "?restart_grace=0");
  auto waiter = *other->enqueue(request(key));
  REQUIRE(std::holds_alternative<Waiting>(*waiter->poll(0s)));
  CHECK(server.command({"DBSIZE"}).integer == 2);  // the lock, the queue
  for (const Reply& name : server.command({"KEYS", "*"}).items) {
    INFO(name.text);
    CHECK(server.command({"PTTL", name.text}).integer > 0);
  }
  CHECK(waiter->cancel());
  CHECK(backend->release(held) == Released::yes);
  const auto left = server.command({"KEYS", "*"});
  REQUIRE(left.items.size() == 1);
  CHECK(left.items[0].text == "dlock:{a%20key%2Fwith%20%7Bbraces%7D%20and%20%C3%BCmlauts}:fence");
  const auto days = server.command({"TTL", left.items[0].text}).integer / 86400;
  CHECK((days == 89 || days == 90));
  const auto view = backend->inspect(key);
  REQUIRE((view && *view));
  CHECK((*view)->fence == held.token);
  CHECK((*view)->holders.empty());
  CHECK(backend->inspect(*Key::parse("never heard of")).value() == std::nullopt);
}

TEST_CASE("list shows a long key whole") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0&prefix=x*[y]?:");
  const Key longest = *Key::parse(std::string(100, '%') + std::string(90, '\''));
  const Key plain = *Key::parse("plain");
  const Lease one = acquire_or_fail(*backend, request(longest));
  acquire_or_fail(*backend, request(plain));
  // would match if the prefix were a pattern
  CHECK(server.command({"SET", "xyy:{other}:fence", "1"}).text == "OK");
  const auto all = list(*backend);
  REQUIRE(all);
  REQUIRE(all->size() == 2);
  CHECK((*all)[0].key == longest.text());
  CHECK((*all)[0].holders.size() == 1);
  CHECK((*all)[1].key == "plain");
  CHECK(backend->release(one) == Released::yes);
  CHECK(list(*backend).value()[0].key == longest.text());  // from the fence record alone
}

TEST_CASE("a release says that it worked whatever is in the place of the queue") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0"),
       other = open_redis(server.url() + "?restart_grace=0");
  const Key key = *Key::parse("foreign");
  for (const bool forced : {false, true}) {
    CAPTURE(forced);
    const Lease held = acquire_or_fail(*backend, request(key, 30s));
    auto waiter = *other->enqueue(request(key));
    REQUIRE(std::holds_alternative<Waiting>(*waiter->poll(0s)));
    REQUIRE(server.command({"SET", "dlock:{foreign}:queue", "x"}).text == "OK");
    CHECK((forced ? other->force_release(key, held.token) : backend->release(held)) ==
          Released::yes);
    CHECK(backend->check(key, held.token) == Validity::stale);
    server.command({"DEL", "dlock:{foreign}:queue"});
    CHECK(waiter->cancel());
  }
}
