// SPDX-License-Identifier: Apache-2.0
// Lost replies, silent servers, sessions that end.
#include <fmt/format.h>
#include <unistd.h>
#include "faults.hpp"
#include "support/proxy.hpp"
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
  bool waiting = false;
  for (const Deadline end = Clock::now() + 30s; !waiting && Clock::now() < end;)
    if (const auto p = w->poll(20ms)) waiting = std::holds_alternative<Waiting>(*p);
  REQUIRE(waiting);
  release_or_fail(*holder, held);
  release_or_fail(*waiter, take(*w));
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
  write();
  const Deadline by_making = session.proof().until();
  CHECK(by_making > Clock::now() + 2s);
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
  for (const Deadline end = Clock::now() + 20s;
       raw.children(far.chroot + "/dlock/k").size() > 2 && Clock::now() < end;)
    ::usleep(20000);
  // it was not polled for longer than its timeout
  REQUIRE(raw.children(far.chroot + "/dlock/k").size() == 2);
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
    REQUIRE(thief.connect(Clock::now() + 10s).has_value());
  }  // closes it
  const auto answer = backend->renew(l, 10s);
  REQUIRE(answer.has_value());
  CHECK(std::holds_alternative<Lost>(*answer));
  CHECK(backend->release(l).value() == Released::was_not_held);
}
