// SPDX-License-Identifier: Apache-2.0
// Lost replies, silent servers, sessions that end.
#include <fcntl.h>
#include <fmt/format.h>
#include "faults.hpp"
#include "support/proxy.hpp"
#include "support/stranger.hpp"
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/records.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

struct Far {  // a chroot of the shared server, also behind a proxy
  std::string chroot = fresh_chroot();
  Proxy proxy{shared_zookeeper().port()};
  std::string direct() const { return shared_zookeeper().url() + chroot; }
  std::string url() const {
    return fmt::format("zookeeper://127.0.0.1:{}{}", proxy.port(), chroot);
  }
  std::unique_ptr<Backend> open(Duration op_timeout, std::string_view recipe = "sequential") const {
    Settings s;
    s.op_timeout = op_timeout;
    return open_zookeeper(url(), s, recipe);
  }
};

}  // namespace

TEST_CASE("nodes of another session that otherwise look like ours are waited for") {
  for (const char* recipe : all_recipes) {
    CAPTURE(recipe);
    const std::string_view name{recipe};
    Far far;
    const auto backend = far.open(500ms, recipe);
    RawZookeeper raw{shared_zookeeper().url()}, dying{shared_zookeeper().url()};
    const Request r = ask();
    const std::string directory = far.chroot + (name == "sequential"  ? "/dlock/k"
                                                : name == "ephemeral" ? ""
                                                                      : "/k");
    raw.make_all(directory);
    const std::string record = zookeeper::NodeRecord::of(r).text();
    std::vector<std::string> old;
    if (name == "ephemeral") old.push_back(dying.make(directory + "/k", record, true));
    // Many, as the servers list children in no order: one of them comes before ours.
    const auto dialect = name == "kazoo"     ? zookeeper::Dialect::kazoo
                         : name == "curator" ? zookeeper::Dialect::curator
                                             : zookeeper::Dialect::sequential;
    while (name != "ephemeral" && old.size() < 20)
      old.push_back(
          dying.make(directory + '/' + zookeeper::node_prefix(dialect, r.owner, Mode::exclusive),
                     record, true, true));
    far.proxy.lose_reply("dlock1");
    const auto w = backend->enqueue(r).value();
    for (const Deadline end = Clock::now() + 1s; Clock::now() < end;) {
      const auto p = w->poll(200ms);
      if (p) REQUIRE(std::holds_alternative<Waiting>(*p));
    }
    CHECK(far.proxy.lost_one());
    for (const auto& node : old) raw.remove(node);
    release_or_fail(*backend, take(*w));
    CHECK(raw.children(directory).empty());
  }
}

TEST_CASE("a waiter that gives up after a lost reply leaves nothing") {
  for (const char* recipe : {"sequential", "ephemeral"}) {
    CAPTURE(recipe);
    Far far;
    const auto backend = far.open(300ms, recipe);
    release_or_fail(*backend, acquire_or_fail(*backend, ask()));
    auto w = backend->enqueue(ask()).value();
    far.proxy.stall(Proxy::to_client, true);
    const auto p = w->poll(0s);
    REQUIRE_FALSE(p.has_value());
    CHECK(p.error().code == Errc::timed_out);
    CHECK_FALSE(w->cancel().has_value());  // still unknown
    const auto other = open_zookeeper(far.direct(), {}, recipe);
    RawZookeeper raw{shared_zookeeper().url()};
    const std::string directory =
        far.chroot + (std::string_view{recipe} == "ephemeral" ? "" : "/dlock/k");
    REQUIRE(becomes([&] { return !raw.children(directory).empty(); }));  // the node exists
    CHECK(waits(**other->enqueue(ask())));
    far.proxy.stall(Proxy::to_client, false);
    CHECK(becomes([&] { return w->cancel().has_value(); }));
    const auto third = open_zookeeper(far.direct(), {}, recipe);
    if (std::string_view{recipe} == "ephemeral")
      CHECK_FALSE(third->inspect(key()).value().has_value());
    // `other`, which was granted after all
    else CHECK(third->inspect(key()).value()->holders.size() == 1);
  }
}

TEST_CASE("ephemeral: a waiter whose watch got no answer notices the release all the same") {
  Far far;
  const auto holder = open_zookeeper(far.direct(), {}, "ephemeral");
  const auto waiter = far.open(500ms, "ephemeral");
  const Lease held = acquire_or_fail(*holder, ask());
  far.proxy.lose_reply("/k\x01", true);  // a request with a watch
  const auto w = waiter->enqueue(ask()).value();
  const auto unanswered = w->poll(0s);
  REQUIRE_FALSE(unanswered);
  CHECK(retryable(unanswered.error().code));
  CHECK(far.proxy.lost_one());
  REQUIRE(waits(*w));
  release_or_fail(*holder, held);
  release_or_fail(*waiter, take(*w));
}

TEST_CASE("a lock released without a reply is gone before the same client takes it anew") {
  for (const char* recipe : all_recipes) {
    CAPTURE(recipe);
    Far far;
    const auto backend = far.open(400ms, recipe);
    const Lease l = acquire_or_fail(*backend, ask());
    far.proxy.stall(Proxy::to_server, true);
    CHECK_FALSE(backend->release(l).has_value());
    far.proxy.stall(Proxy::to_server, false);
    const Lease next = take(**backend->enqueue(ask()));
    CHECK(next.token > l.token);
    CHECK(next.owner != l.owner);
    CHECK(lost(renewed(*backend, l, 10s)));
    const auto other = open_zookeeper(far.direct(), {}, recipe);
    CHECK(other->check(key(), l.token).value() == Validity::stale);
    CHECK(other->check(key(), next.token).value() == Validity::valid);
    release_or_fail(*backend, next);
  }
}

TEST_CASE("an owner released without a reply is never used again") {
  Far far;
  const auto backend = far.open(400ms);
  const Request r = ask();
  const auto w = backend->enqueue(r).value();
  const Lease l = take(*w);
  far.proxy.stall(Proxy::to_server, true);
  CHECK_FALSE(w->cancel().has_value());
  far.proxy.stall(Proxy::to_server, false);
  const Lease next = take(**backend->enqueue(r));  // the same request
  CHECK(next.owner != r.owner);
  CHECK(next.token > l.token);
  release_or_fail(*backend, next);
}

TEST_CASE("a permit's claim whose reply is lost has one slot") {
  Far far;
  const auto backend = far.open(500ms), other = open_zookeeper(far.direct());
  Request r = ask();
  r.mode = Mode::permit;
  r.limit = 2;
  RawZookeeper raw{shared_zookeeper().url()};
  raw.make_all(far.chroot + "/dlock/k");
  far.proxy.lose_reply("slot-0");
  const Lease l = take(**backend->enqueue(r));
  CHECK(far.proxy.lost_one());
  CHECK(l.slot == 0);
  CHECK(raw.children(far.chroot + "/dlock/k").size() == 2);
  r.owner = Owner::random();
  const Lease second = acquire_or_fail(*other, r);
  CHECK(second.slot == 1);
  release_or_fail(*backend, l);
  release_or_fail(*other, second);
  CHECK(raw.children(far.chroot + "/dlock/k").empty());
}

TEST_CASE(
    "answered reads prove nothing; writes prove requests sent before them, however late their "
    "replies") {
  Far far;
  RawZookeeper above{shared_zookeeper().url()};
  above.make_all(far.chroot + "/k");
  RawZookeeper raw{far.url() + "?tick=1s", 4s};
  zookeeper::Session& session = raw.session();
  std::vector<zookeeper::Session::Call> reads;
  const auto read_for = [&](Duration d) {  // one after the other, whether they are answered or not
    for (const Deadline end = later(Clock::now(), d); Clock::now() < end;) {
      reads.push_back(session.get(far.chroot + "/k"));
      session.listen(later(Clock::now(), 20ms));
    }
  };
  const auto write = [&] {
    const auto call = session.set(far.chroot + "/k", "x");
    while (!call.done()) read_for(20ms);
    REQUIRE(call.reply().rc == 0);
    return call.reply().sent;
  };
  read_for(700ms);
  CHECK(session.proof().until() == Deadline{});
  const Deadline made = write(), by_making = session.proof().until();
  CHECK(by_making > made + 2s);
  far.proxy.delay(Proxy::to_client, 1s);
  read_for(1700ms);  // until replies come one after the other again
  CHECK(session.proof().until() == by_making);
  const Deadline first = write();
  write();
  CHECK(session.proof().until() > by_making);
  // a reply that had come by then answered a request one second older
  CHECK(session.proof().until() <= lease_end(first - 1s - 500ms, 4s));
  far.proxy.delay(Proxy::to_client, 0s);
}

TEST_CASE("a frozen server: all outcomes are unknown") {
  ZookeeperServer server{{.durable = false}};
  Settings s;
  s.op_timeout = 300ms;
  s.connect_timeout = 500ms;
  const auto backend = open_zookeeper(server.url(), s), other = open_zookeeper(server.url(), s);
  const Lease l = acquire_or_fail(*backend, ask());
  const auto w = other->enqueue(ask()).value();
  CHECK(waits(*w));
  server.freeze();
  for (int i = 0; i < 3; ++i)
    CHECK(ends_within(2s, [&] { CHECK_FALSE(backend->renew(l, 10s).has_value()); }));
  const auto p = w->poll(100ms);
  CHECK((!p || std::holds_alternative<Waiting>(*p)));
  CHECK_FALSE(backend->check(key(), l.token).has_value());
  server.thaw();
  const Lease same = std::get<Kept>(renewed(*backend, l, 10s)).lease;
  CHECK(same.token == l.token);
  release_or_fail(*backend, same);
  CHECK(take(*w).token > l.token);
}

TEST_CASE(
    "a session that ends while its client waits: it queues again, and only its place shows it") {
  Far far;
  const auto holder = open_zookeeper(far.direct()), behind = open_zookeeper(far.direct());
  const auto waiter = far.open(2s);
  const Lease l = acquire_or_fail(*holder, ask());
  const Request r = ask(1s);
  const auto w = waiter->enqueue(r).value();
  CHECK(waits(*w));
  const auto later_one = behind->enqueue(ask()).value();
  CHECK(waits(*later_one));
  RawZookeeper raw{shared_zookeeper().url()};
  // it was not polled for longer than its timeout
  REQUIRE(becomes([&] { return raw.children(far.chroot + "/dlock/k").size() == 2; }));
  release_or_fail(*holder, l);
  const Lease next = take(*later_one);
  CHECK(waits(*w, 100ms));
  release_or_fail(*behind, next);
  const Lease own = take(*w);
  CHECK(own.token > next.token);
  CHECK(behind->check(key(), own.token).value() == Validity::valid);
}

TEST_CASE("a session closed from outside while it holds: lost at the next renewal") {
  const std::string url = place();
  const auto backend = open_zookeeper(url);
  Request r = ask();
  r.attached = false;
  const Lease l = acquire_or_fail(*backend, r);
  {
    const auto options =
        zookeeper::parse_options(Url::parse(url).value(), zookeeper::recipes[0], {}).value();
    zookeeper::Session thief{options, 10s, zookeeper::Ticket::parse(l.ticket)};
    REQUIRE(thief.connect(Clock::now() + 60s).has_value());
  }  // closes it
  const auto answer = backend->renew(l, 10s);
  REQUIRE(answer.has_value());
  CHECK(std::holds_alternative<Lost>(*answer));
  CHECK(backend->release(l).value() == Released::was_not_held);
}

// The name of the node recurs, so the request finds that of the next holder.
TEST_CASE("ephemeral: a late request to stop asks no later holder, which stays what it is") {
  Far far;
  const auto holder = open_zookeeper(far.direct(), {}, "ephemeral"),
             admin = open_zookeeper(far.direct(), {}, "ephemeral");
  const auto late = far.open(500ms, "ephemeral");
  RawZookeeper raw{shared_zookeeper().url()};
  const Lease first = acquire_or_fail(*holder, ask());
  far.proxy.hold(std::string{zookeeper::revoke_mark});
  // unanswered, so whether it was carried out is unknown
  REQUIRE_FALSE(
      call_until([&] { return far.proxy.holds_one(2s); }, [&] { return late->revoke(key()); }));
  release_or_fail(*holder, first);
  const Lease second = acquire_or_fail(*holder, ask());
  REQUIRE(second.token > first.token);
  far.proxy.let_go();
  const auto arrived = [&] {
    return raw.get(far.chroot + "/k").text.starts_with(zookeeper::revoke_mark);
  };
  REQUIRE(becomes(arrived));
  for (int i = 0; i < 2; ++i) {
    const auto renewed = holder->renew(second, 10s).value();
    REQUIRE(std::holds_alternative<Kept>(renewed));
    CHECK_FALSE(std::get<Kept>(renewed).revoked);
  }
  const auto seen = admin->inspect(key()).value().value();
  REQUIRE(seen.holders.size() == 1);
  CHECK_FALSE(seen.holders[0].revoked);
  CHECK(seen.holders[0].token == second.token);
  CHECK(seen.holders[0].id != first.owner.hex().substr(0, 8));
  CHECK(list(*admin).value().at(0).holders.at(0).id != first.owner.hex().substr(0, 8));
  CHECK(admin->check(key(), first.owner).value() == Validity::stale);
  CHECK(admin->check(key(), second.token).value() == Validity::valid);
  CHECK(admin->revoke(key()).value() == Released::yes);  // one that is meant for it
  CHECK(std::get<Kept>(holder->renew(second, 10s).value()).revoked);
  release_or_fail(*holder, second);
}

TEST_CASE("an error of a connection says why no server answers") {
  const auto why = [](std::uint16_t port) {
    const auto backend =
        open_zookeeper("zookeeper://127.0.0.1:" + std::to_string(port), quick(1s, 1s));
    const auto answer = backend->inspect(key());
    return answer ? "it answers" : answer.error().message;
  };
  CHECK(why(1).find("127.0.0.1:1: Connection refused") != std::string::npos);
  const Stranger other{[](const Fd& peer) {
    (void)heard(peer);
    say(peer, "-ERR unknown command");
    while (!heard(peer).empty()) {}
  }};
  // a busy machine may be late with that answer
  CHECK(one_of_five(
      [&] { return why(other.port()).find("does not speak ZooKeeper") != std::string::npos; }));
}

// Otherwise a frozen leader keeps dlock from the servers that have elected another one.
TEST_CASE("a server that stays silent gets less time at the next attempts to connect") {
  const Listener frozen;
  ::fcntl(frozen.fd.get(), F_SETFL, O_NONBLOCK);
  const std::string url = fmt::format("zookeeper://127.0.0.1:{}", frozen.port);
  CHECK(one_of_five([&] {
    CHECK_FALSE(open_zookeeper(url, quick(4s, 4s))->inspect(key()));  // the first waits for 1 s
    unsigned attempts = 0;
    while (frozen.accept()) ++attempts;
    return attempts > 5;
  }));
}
