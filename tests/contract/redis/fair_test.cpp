// SPDX-License-Identifier: Apache-2.0
// Recipe `fair` on a real server, beyond the contract of every backend.
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <thread>
#include "redis/fair/fair_backend.hpp"
#include "support/redis_client.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

TEST_CASE("a grant, its renewal and its release cost one command each on a warm connection") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0");
  const Key key = *Key::parse("nightly");
  const Lease warm = acquire_or_fail(*backend, request(key));  // connected, scripts known
  REQUIRE(backend->renew(warm, 10s));
  release_or_fail(*backend, warm);
  const auto before = backend->counters().requests;
  const Lease lease = acquire_or_fail(*backend, request(key));
  CHECK(backend->counters().requests == before + 1);
  const auto renewal = backend->renew(lease, 10s);
  REQUIRE(renewal);
  REQUIRE(std::holds_alternative<Kept>(*renewal));
  CHECK(std::get<Kept>(*renewal).lease.token == lease.token);
  CHECK(std::get<Kept>(*renewal).lease.deadline > Clock::now() + 9s);
  CHECK(backend->release(lease) == Released::yes);
  CHECK(backend->counters().requests == before + 3);
  CHECK(backend->release(lease) == Released::was_not_held);
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

TEST_CASE("a release wakes exactly the next waiter, in order of arrival") {
  RedisServer server;
  const Key key = *Key::parse("fifo");
  auto first = open_redis(server.url() + "?restart_grace=0");
  const Lease held = acquire_or_fail(*first, request(key));
  constexpr int n = 8;
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Waiter>> waiters;
  std::vector<int> order;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) {  // all are queued, in a known order, before the first is granted
    backends.push_back(open_redis(server.url() + "?restart_grace=0"));
    waiters.push_back(*backends[i]->enqueue(request(key)));
    const auto p = waiters[i]->poll(0s);
    REQUIRE((p && std::get<Waiting>(*p).ahead == static_cast<std::size_t>(i)));
  }
  for (int i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      const auto p = waiters[i]->poll(20s);
      if (!p || !std::holds_alternative<Granted>(*p)) return;
      {
        const std::lock_guard lock{mutex};
        order.push_back(i);
      }
      (void)backends[i]->release(std::get<Granted>(*p).lease);
    });
  REQUIRE(blocked_clients(server, n));
  const auto began = Clock::now();
  REQUIRE(first->release(held) == Released::yes);
  for (auto& t : threads) t.join();
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(Clock::now() - began < 3s);  // no waiter needed its timer
  std::uint64_t woken = 0;
  for (const auto& b : backends) woken += b->counters().wakeups;
  CHECK(woken == n);
}

TEST_CASE("a dead queue head costs at most one liveness period") {
  RedisServer server;
  const Key key = *Key::parse("dead-head");
  auto holder = open_redis(server.url() + "?restart_grace=0");
  const Lease held = acquire_or_fail(*holder, request(key, 9s));
  auto dead = open_redis(server.url() + "?restart_grace=0");
  auto gone = *dead->enqueue(request(key, 9s));
  REQUIRE(std::holds_alternative<Waiting>(*gone->poll(0s)));
  gone.reset();  // closes without a cancel
  dead.reset();
  auto second = open_redis(server.url() + "?restart_grace=0");
  auto waiter = *second->enqueue(request(key, 9s));
  REQUIRE(std::get<Waiting>(*waiter->poll(0s)).ahead == 1);
  REQUIRE(holder->release(held) == Released::yes);
  const auto began = Clock::now();
  const auto p = waiter->poll(20s);
  REQUIRE((p && std::holds_alternative<Granted>(*p)));
  const auto took = Clock::now() - began;
  CHECK(took <= redis::patience_of(9s) + 500ms);
  WARN("dead head: " << took / 1ms << " ms, liveness period " << redis::patience_of(9s) / 1ms
                     << " ms");
}

TEST_CASE(
    "after a holder vanished the next grant comes at the end of its lease, plus a lock-delay") {
  RedisServer server;
  const Key key = *Key::parse("crash");
  for (const auto delay : {0ms, 600ms}) {
    auto holder = open_redis(server.url() + "?restart_grace=0");
    Request r = request(key, 1s);
    r.lock_delay = delay;
    const auto began = Clock::now();
    const Lease lost = acquire_or_fail(*holder, r);
    holder.reset();
    auto next = open_redis(server.url() + "?restart_grace=0");
    auto waiter = *next->enqueue(request(key, 1s));
    const auto p = waiter->poll(10s);
    REQUIRE((p && std::holds_alternative<Granted>(*p)));
    const auto took = Clock::now() - began;
    CHECK(took >= 1s + delay);
    CHECK(took < 1500ms + delay);
    CHECK(std::get<Granted>(*p).lease.token > lost.token);
    CHECK(next->release(lost) == Released::was_not_held);
    CHECK(next->release(std::get<Granted>(*p).lease) == Released::yes);
  }
}

TEST_CASE("an interrupted wait returns at once and keeps its place") {
  RedisServer server;
  const Key key = *Key::parse("interrupt");
  auto holder = open_redis(server.url() + "?restart_grace=0");
  const Lease held = acquire_or_fail(*holder, request(key));
  const Fd knock{::eventfd(0, EFD_CLOEXEC)};
  Settings settings;
  settings.interrupt_fd = knock.get();
  auto backend = open_redis(server.url() + "?restart_grace=0", settings);
  auto waiter = *backend->enqueue(request(key));
  REQUIRE(std::holds_alternative<Waiting>(*waiter->poll(0s)));
  std::thread later{[&] {
    if (blocked_clients(server, 1)) (void)!::write(knock.get(), "\1\0\0\0\0\0\0\0", 8);
  }};
  const auto began = Clock::now();
  REQUIRE(std::holds_alternative<Waiting>(*waiter->poll(30s)));
  CHECK(Clock::now() - began < 5s);
  later.join();
  std::uint64_t n = 0;
  REQUIRE(::read(knock.get(), &n, sizeof n) == sizeof n);
  const auto asked = backend->counters().requests;
  REQUIRE(holder->release(held) == Released::yes);
  // the wake-up came during the interrupted wait
  REQUIRE(std::holds_alternative<Granted>(*waiter->poll(5s)));
  CHECK(backend->counters().requests == asked + 1);
}

TEST_CASE("a lease is renewed while another key is waited for on the same Backend") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0");
  auto other = open_redis(server.url() + "?restart_grace=0");
  const Lease mine = acquire_or_fail(*backend, request(*Key::parse("one")));
  const Lease theirs = acquire_or_fail(*other, request(*Key::parse("two")));
  auto waiter = *backend->enqueue(request(*Key::parse("two")));
  REQUIRE(std::holds_alternative<Waiting>(*waiter->poll(50ms)));
  const auto renewal = backend->renew(mine, 20s);
  REQUIRE((renewal && std::holds_alternative<Kept>(*renewal)));
  REQUIRE(other->release(theirs) == Released::yes);
  REQUIRE(std::holds_alternative<Granted>(*waiter->poll(5s)));
  CHECK(backend->release(mine) == Released::yes);
}

TEST_CASE("readers pass together, a writer that came first is not overtaken, permits have slots") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0");
  const Key key = *Key::parse("modes");
  const auto with = [&](Mode mode, unsigned limit = UINT_MAX, bool wait = true) {
    Request r = request(key);
    r.mode = mode, r.limit = limit, r.wait = wait;
    return r;
  };
  const Lease reader = acquire_or_fail(*backend, with(Mode::shared));
  const Lease reader2 = acquire_or_fail(*backend, with(Mode::shared));
  CHECK(reader2.token > reader.token);
  auto writer = *backend->enqueue(with(Mode::exclusive));
  CHECK(std::holds_alternative<Waiting>(*writer->poll(0s)));
  CHECK(std::holds_alternative<Busy>(
      *(*backend->enqueue(with(Mode::shared, UINT_MAX, false)))->poll(0s)));
  CHECK(backend->release(reader) == Released::yes);
  CHECK(std::holds_alternative<Waiting>(*writer->poll(0s)));
  CHECK(backend->release(reader2) == Released::yes);
  const auto p = writer->poll(5s);
  REQUIRE(std::holds_alternative<Granted>(*p));
  CHECK(backend->release(std::get<Granted>(*p).lease) == Released::yes);

  std::vector<Lease> permits;
  for (unsigned i = 0; i < 3; ++i)
    permits.push_back(acquire_or_fail(*backend, with(Mode::permit, 3)));
  CHECK((permits[0].slot == 0 && permits[1].slot == 1 && permits[2].slot == 2));
  CHECK(std::holds_alternative<Busy>(*(*backend->enqueue(with(Mode::permit, 3, false)))->poll(0s)));
  CHECK(backend->release(permits[1]) == Released::yes);
  CHECK(acquire_or_fail(*backend, with(Mode::permit, 3)).slot == 1);
}

TEST_CASE("holders and waiters as inspect shows them") {
  RedisServer server;
  auto backend = open_redis(server.unix_url() + "?restart_grace=0");
  const Key key = *Key::parse("seen");
  Request r = request(key, 30s);
  r.identity = Identity::mine("nightly backup");
  const Lease held = acquire_or_fail(*backend, r);
  auto waiter = *backend->enqueue(request(key));
  const auto p = waiter->poll(0s);
  REQUIRE(std::holds_alternative<Waiting>(*p));
  const auto& w = std::get<Waiting>(*p);
  REQUIRE(w.holder);
  CHECK(w.holder->who.reason == "nightly backup");
  CHECK(w.holder->who.pid == ::getpid());
  CHECK(w.holder->id == held.owner.hex().substr(0, 8));
  const auto view = **backend->inspect(key);
  REQUIRE(view.holders.size() == 1);
  CHECK(view.holders[0].token == held.token);
  CHECK(view.holders[0].remaining > 29s);
  CHECK(view.holders[0].remaining <= 30s);
  CHECK_FALSE(view.holders[0].attached);
  REQUIRE(view.waiters.size() == 1);
  CHECK(view.notes.empty());
  CHECK(backend->check(key, held.token) == Validity::valid);
  CHECK(backend->check(key, held.owner) == Validity::valid);
  CHECK(backend->check(key, held.token + 1) == Validity::stale);
  CHECK(backend->check(key, Owner::random()) == Validity::stale);
  CHECK(backend->force_release(key, held.token + 1) == Released::was_not_held);
  CHECK(backend->force_release(key, held.token) == Released::yes);
  CHECK(backend->check(key, held.token) == Validity::stale);
  CHECK(std::holds_alternative<Lost>(*backend->renew(held, 30s)));
  CHECK(std::holds_alternative<Granted>(*waiter->poll(5s)));
}

TEST_CASE("a lease can be set longer or shorter, and is never revived") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=0");
  const Key key = *Key::parse("detach");
  const Lease held = acquire_or_fail(*backend, request(key, 30s));
  const auto shorter = backend->detach(held, 300ms);
  REQUIRE(std::holds_alternative<Kept>(*shorter));
  CHECK(std::get<Kept>(*shorter).lease.deadline < Clock::now() + 300ms);
  auto waiter = *backend->enqueue(request(key));
  REQUIRE(std::holds_alternative<Granted>(*waiter->poll(5s)));
  CHECK(std::holds_alternative<Lost>(*backend->renew(held, 30s)));
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

TEST_CASE("the holding time counts from the grant, not from the last renewal") {
  RedisServer server;
  for (const char* recipe : {"fair", "set", "setnx-expire", "getset"}) {
    CAPTURE(recipe);
    const std::string url = server.url() + "?restart_grace=0" +
                            (std::string_view{recipe} == "getset" ? "&unit=ms" : "");
    auto backend = open_redis(url, {}, recipe), other = open_redis(url, {}, recipe);
    const Key key = *Key::parse(fmt::format("held-{}", recipe));
    const auto began = Clock::now();
    const Lease lease = acquire_or_fail(*backend, request(key));
    const auto granted = Clock::now();
    ::usleep(30'000);
    REQUIRE(std::holds_alternative<Kept>(backend->renew(lease, 10s).value()));
    const auto asked = Clock::now();
    const auto view = backend->inspect(key).value();
    const auto answered = Clock::now();
    REQUIRE((view && view->holders.size() == 1 && view->holders[0].held));
    CHECK(*view->holders[0].held >= asked - granted - 1ms);
    CHECK(*view->holders[0].held <= answered - began + 1ms);
    auto waiter = *other->enqueue(request(key));
    const auto p = waiter->poll(0s).value();
    REQUIRE((std::holds_alternative<Waiting>(p) && std::get<Waiting>(p).holder));
    CHECK(std::get<Waiting>(p).holder->held >= asked - granted - 1ms);
    release_or_fail(*backend, lease);
    CHECK(waiter->cancel());
  }
}
