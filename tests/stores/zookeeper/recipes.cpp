// SPDX-License-Identifier: Apache-2.0
// What other clients, operators and limits do to a lock.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include "faults.hpp"
#include "support/proxy.hpp"
#include "zookeeper/queue/queue.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("another dialect's nodes give an error with a hint, and no node of ours stays") {
  struct Case {
    const char *node, *recipe, *hint;
  };
  for (const Case& c : {Case{"_c_0123-lock-", "sequential", "--recipe curator"},
                        {"0123__lock__", "sequential", "--recipe kazoo"},
                        {"_c_0123-__WRIT__", "curator", "--recipe sequential"},
                        {"0123__lock__", "curator", "--recipe kazoo"},
                        {"_c_0123-lock-", "kazoo", "--recipe curator"},
                        {"0123__rlock__", "kazoo", "prefix"},
                        {"x-77-", "curator", "prefix"}}) {
    CAPTURE(c.node, c.recipe);
    const std::string chroot = fresh_chroot(),
                      url = shared_zookeeper().url() + chroot + "?prefix=p/";
    RawZookeeper raw{shared_zookeeper().url()};
    raw.make_all(chroot + "/p/k");
    raw.make(chroot + "/p/k/" + c.node, "", true, true);
    const auto backend = open_zookeeper(url, {}, c.recipe);
    const auto p = (*backend->enqueue(ask()))->poll(1s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::usage);
    CHECK(p.error().message.find(c.hint) != std::string::npos);
    CHECK(raw.children(chroot + "/p/k").size() == 1);
  }
}

TEST_CASE("a holder of another program is waited for, by its node name") {
  for (const auto& [node, recipe] : {std::pair{"_c_aaaa-lock-", "curator"},
                                     {"aaaa__lock__", "kazoo"},
                                     {"_c_aaaa-__WRIT__", "sequential"}}) {
    CAPTURE(recipe);
    const std::string chroot = fresh_chroot();
    RawZookeeper raw{shared_zookeeper().url()};
    raw.make_all(chroot + "/p/k");
    const std::string theirs = raw.make(chroot + "/p/k/" + node, "10.0.0.1", true, true);
    const auto backend =
        open_zookeeper(shared_zookeeper().url() + chroot + "?prefix=p/", {}, recipe);
    const auto w = backend->enqueue(ask()).value();
    CHECK(waits(*w, 50ms));
    raw.remove(theirs);
    release_or_fail(*backend, take(*w));
  }
}

TEST_CASE("a directory that is removed again and again does not keep contenders out") {
  const std::string chroot = fresh_chroot();
  std::atomic<bool> stop{false};
  std::atomic<long> removed{0};
  std::thread remover{[&] {
    RawZookeeper raw{shared_zookeeper().url()};
    while (!stop) removed += raw.remove(chroot + "/dlock/k") == 0;
  }};
  const auto backend = open_zookeeper(shared_zookeeper().url() + chroot);
  FencingToken last = 0;
  for (int i = 0; i < 100; ++i) {
    const Lease l = take(**backend->enqueue(ask()));
    CHECK(l.token > last);
    last = l.token;
    CHECK(backend->release(l).value() == Released::yes);
  }
  stop = true;
  remover.join();
  CHECK(removed > 0);
}

TEST_CASE("a waiter whose node is removed queues again, at the end") {
  const std::string chroot = fresh_chroot();
  const std::string url = shared_zookeeper().url() + chroot;
  const auto a = open_zookeeper(url), b = open_zookeeper(url), c = open_zookeeper(url);
  const Lease held = acquire_or_fail(*a, ask());
  const auto first = b->enqueue(ask()).value();
  CHECK(waits(*first));
  const auto second = c->enqueue(ask()).value();
  CHECK(waits(*second));
  RawZookeeper raw{shared_zookeeper().url()};
  auto names = raw.children(chroot + "/dlock/k");
  const auto d = zookeeper::Directory::of(zookeeper::Dialect::sequential, names);
  REQUIRE(d.queue.size() == 3);
  raw.remove(chroot + "/dlock/k/" + d.queue[1].name);
  release_or_fail(*a, held);
  const Lease next = take(*second);
  CHECK(waits(*first));
  release_or_fail(*c, next);
  CHECK(take(*first).token > next.token);
}

TEST_CASE(
    "ephemeral: a holder removed by force does not take the next one's node of the same name for "
    "its own") {
  const std::string url = place();
  const auto one = open_zookeeper(url, {}, "ephemeral"), two = open_zookeeper(url, {}, "ephemeral");
  const Lease first = acquire_or_fail(*one, ask());
  CHECK(two->force_release(key(), first.token).value() == Released::yes);
  const Lease second = acquire_or_fail(*two, ask());  // before the first one polls again
  CHECK(lost(one->renew(first, 10s)));
  CHECK(one->release(first).value() == Released::was_not_held);
  CHECK(kept(two->renew(second, 10s)));
  CHECK(two->release(second).value() == Released::yes);
  // The same without a renewal between: the release checks first.
  const Lease third = acquire_or_fail(*one, ask());
  CHECK(two->force_release(key(), third.token).value() == Released::yes);
  const Lease fourth = acquire_or_fail(*two, ask());
  CHECK(one->release(third).value() == Released::was_not_held);
  CHECK(kept(two->renew(fourth, 10s)));
}

TEST_CASE("a forced release is noticed at once, before any renewal") {
  for (const char* recipe : all_recipes)
    for (const bool waited : {false, true}) {
      CAPTURE(recipe, waited);
      const std::string url = place("?prefix=p/");
      const auto first = open_zookeeper(url, {}, recipe), holder = open_zookeeper(url, {}, recipe),
                 admin = open_zookeeper(url, {}, recipe);
      const auto w = holder->enqueue(ask()).value();
      if (waited) {
        const Lease before = acquire_or_fail(*first, ask());
        CHECK(waits(*w));
        release_or_fail(*first, before);
      }
      const Granted g = take_all(*w);
      REQUIRE(g.alarm_fd >= 0);
      CHECK(admin->force_release(key(), g.lease.token).value() == Released::yes);
      pollfd alarm{g.alarm_fd, POLLIN, 0};
      CHECK(::poll(&alarm, 1, 30000) == 1);
      CHECK(lost(holder->renew(g.lease, 10s)));
    }
}

TEST_CASE("a server named by an IPv6 literal") {
  ZookeeperServer::Setup setup;
  setup.address = "::1";
  setup.wait_ready = false;
  ZookeeperServer server{std::move(setup)};
  Settings s;
  s.connect_timeout = 30s;
  const auto backend = open_zookeeper("zookeeper://[::1]:" + std::to_string(server.port()), s);
  release_or_fail(*backend, acquire_or_fail(*backend, ask(1s)));
}

TEST_CASE("a ttl outside the servers' limits is refused with their limit") {
  const auto backend = open_zookeeper(place());
  for (const auto& [ttl, limit] :
       {std::pair<Duration, const char*>{100ms, "at least 200ms"}, {300s, "at most 2m"}}) {
    const auto p = (*backend->enqueue(ask(ttl)))->poll(1s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::usage);
    CHECK(p.error().message.find(limit) != std::string::npos);
  }
  release_or_fail(*backend, acquire_or_fail(*backend, ask()));
}

TEST_CASE(
    "a detached lease is renewed for no more than its ttl; one process at a time has its handle") {
  const std::string url = place();
  auto first = open_zookeeper(url);
  Request r = ask(20s);
  r.attached = false;
  const Lease lease = acquire_or_fail(*first, r);
  REQUIRE_FALSE(lease.ticket.empty());
  first.reset();
  Lease handle{key(), lease.owner};
  handle.ticket = lease.ticket;
  auto second = open_zookeeper(url), third = open_zookeeper(url, quick(200ms, 10s));
  const auto kept = second->renew(handle, 20s).value();
  REQUIRE(std::holds_alternative<Kept>(kept));
  CHECK(std::get<Kept>(kept).lease.token == lease.token);
  CHECK(std::get<Kept>(kept).lease.deadline > Clock::now() + 5s);
  const auto evicted = third->renew(handle, 20s);
  REQUIRE_FALSE(evicted);
  CHECK(evicted.error().code == Errc::unavailable);
  CHECK(evicted.error().message.find("another process") != std::string::npos);
  second.reset();
  third = open_zookeeper(url);
  // A new leader would count as from the session's creation.
  const auto more = third->renew(handle, 21s);
  REQUIRE_FALSE(more);
  CHECK(more.error().code == Errc::usage);
  CHECK(more.error().message.find("--ttl up to 20s") != std::string::npos);
  CHECK(third->check(key(), lease.token).value() == Validity::valid);
  CHECK(third->release(handle).value() == Released::yes);
  CHECK(third->release(handle).value() == Released::was_not_held);
  Lease wrong = handle;
  wrong.ticket[47] = wrong.ticket[47] == '0' ? '1' : '0';
  CHECK(lost(third->renew(wrong, 20s)));
}

TEST_CASE(
    "a handle of several keys: a release or renewal of one leaves the others, and asks for the "
    "session's first timeout") {
  const std::string url = place();
  auto first = open_zookeeper(url);
  Request r = ask(20s), other = r;
  r.attached = other.attached = false;
  other.key = key("other");
  const Lease lease = acquire_or_fail(*first, r);
  const Lease more = acquire_or_fail(*first, other);
  CHECK(more.ticket == lease.ticket);
  first.reset();
  Lease handle{r.key, lease.owner}, handle_of_other{other.key, lease.owner};
  handle.ticket = handle_of_other.ticket = lease.ticket;
  CHECK(open_zookeeper(url)->release(handle).value() == Released::yes);
  const auto looker = open_zookeeper(url);
  CHECK(looker->check(r.key, lease.token).value() == Validity::stale);
  CHECK(looker->check(other.key, more.token).value() == Validity::valid);
  CHECK_FALSE(open_zookeeper(url)->renew(handle_of_other, 22s));
  const auto shorter = open_zookeeper(url)->renew(handle_of_other, 2s).value();
  REQUIRE(std::holds_alternative<Kept>(shorter));
  CHECK(std::get<Kept>(shorter).lease.deadline < Clock::now() + 2s);
  CHECK(looker->inspect(other.key).value()->holders.at(0).remaining == 20s);
  CHECK(kept(open_zookeeper(url)->renew(handle_of_other, 20s)));
  CHECK(open_zookeeper(url)->release(handle_of_other).value() == Released::yes);
  CHECK(looker->check(other.key, more.token).value() == Validity::stale);
}

TEST_CASE("doctor: quorum, servers, limits and ACL") {
  const auto backend = open_zookeeper(place());
  const auto findings = backend->doctor().value();
  const auto of = [&](std::string_view what) {
    const auto at = std::find_if(findings.begin(), findings.end(),
                                 [&](const Finding& f) { return f.what.starts_with(what); });
    REQUIRE(at != findings.end());
    return *at;
  };
  CHECK(of("quorum").level == Finding::Level::good);
  CHECK(of("servers").seen.find("standalone") != std::string::npos);
  CHECK(of("session limits").seen.find("tickTime 100ms, sessions of 200ms to 2m") !=
        std::string::npos);
  CHECK(of("version").level == Finding::Level::good);
  CHECK(of("version").seen.starts_with("3."));
  CHECK(of("maxClientCnxns").level != Finding::Level::unknown);
  CHECK(of("ensemble").level == Finding::Level::warning);
  CHECK(of("ACL").level == Finding::Level::good);
}

// ---- --once-per --------------------------------------------------------------------------------

namespace {

// Two that hold the key together; `a` is behind a proxy.
struct Noting {
  Proxy proxy{shared_zookeeper().port()};
  const std::string chroot = fresh_chroot();
  const std::unique_ptr<Backend> a = open_zookeeper(fmt::format("zookeeper://127.0.0.1:{}{}",
                                                                proxy.port(), chroot)),
                                 b = open_zookeeper(shared_zookeeper().url() + chroot);
  const Lease mine = shared_by(*a), other = shared_by(*b);
  const std::int64_t now = b->starts(key()).value().now;

  static Lease shared_by(Backend& backend) {
    Request r = ask();
    r.mode = Mode::shared;
    return acquire_or_fail(backend, r);
  }
  RunStart start(std::int64_t number) const { return {now + number, now + 3'600'000'000 + number}; }
  // What `a` is answered, whose note arrives when `meanwhile` is over.
  template <class Meanwhile>
  UpdateResult late(const std::optional<RunStart>& was, const RunStart& is, Meanwhile meanwhile) {
    proxy.hold(fmt::format("dlock1 {}", is.at));
    auto noted = std::async(std::launch::async, [&] { return a->note_start(mine, {was, is}); });
    REQUIRE(proxy.holds_one());
    meanwhile();
    proxy.let_go();
    return noted.get().value();
  }
};

}  // namespace

TEST_CASE("late: a noted start never replaces one that was noted after the reading") {
  Noting n;
  const bool there = GENERATE(false, true);  // then it is changed, else it is created
  CAPTURE(there);
  std::optional<RunStart> was;
  if (there) was = n.start(1);
  if (there) REQUIRE(n.b->note_start(n.other, {{}, was}).value() == UpdateResult::yes);
  CHECK(n.late(was, n.start(2), [&] {
    CHECK(n.b->note_start(n.other, {was, n.start(3)}).value() == UpdateResult::yes);
  }) == UpdateResult::other_start);
  CHECK(n.b->starts(key()).value().last == n.start(3));
}

TEST_CASE("late: a noted start whose grant has ended meanwhile changes nothing") {
  Noting n;
  CHECK(n.late({}, n.start(0), [&] {
    CHECK(n.b->force_release(key(), std::nullopt).value() == Released::yes);
  }) == UpdateResult::not_held);
  CHECK_FALSE(n.b->starts(key()).value().last);
}

TEST_CASE("a noted start that was withdrawn does not come back by its version") {
  Noting n;
  const RunStart one = n.start(1), next = n.start(3);
  REQUIRE(n.b->note_start(n.other, {{}, one}).value() == UpdateResult::yes);
  CHECK(n.late(one, n.start(2), [&] {
    CHECK(n.b->note_start(n.other, {one, {}}).value() == UpdateResult::yes);
    CHECK(n.b->note_start(n.other, {{}, next}).value() == UpdateResult::yes);
  }) == UpdateResult::other_start);
  CHECK(n.b->starts(key()).value().last == next);
}

TEST_CASE("the times of --once-per are the servers', also of who has written nothing yet") {
  const std::string url = place();
  const auto a = open_zookeeper(url), b = open_zookeeper(url);
  acquire_or_fail(*a, ask());
  for (const auto& one : {&*a, &*b}) {
    const std::int64_t before = wall_micros();
    const std::int64_t told = one->starts(key()).value().now;
    CHECK(told >= before - 60'000'000);
    CHECK(told <= wall_micros() + 1'000);  // the same clock here; ms in the node
  }
  CHECK(b->inspect(key()).value()->notes.empty());
  CHECK(a->erase(key()));
}
