// SPDX-License-Identifier: Apache-2.0
// A request arrives when its sender has given it up and the lock is another's, or has been renewed:
// what it hits, for each kind of request.
#include <functional>
#include <future>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

constexpr const char* transactions = "/v3/kv/txn";

struct Scene {
  EtcdServer server{in_memory()};
  Proxy proxy{port_of(server.host())};
  std::unique_ptr<Backend> late = open_etcd(through(proxy), quick()),
                           other = open_etcd(server.url(), quick(5s));

  // The next such request of `late` does not arrive before let_go().
  template <class Call>
  void unanswered(Call call, const char* path = transactions) {
    proxy.hold(path);
    auto outcome = std::async(std::launch::async, call);
    REQUIRE(proxy.holds_one());
    const auto answer = outcome.get();
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == Errc::timed_out);
  }
  void arrives() {
    proxy.let_go();
    REQUIRE(proxy.answered());
  }
  // What is at the key of this lease.
  etcd::KeyValue at(const Lease& lease) const {
    for (const etcd::KeyValue& kv : below(server, "dlock/lock/" + lease.key.text() + "/"))
      if (kv.key.ends_with(lease.owner.hex())) return kv;
    return {};
  }
  void still_holds(const Lease& lease) {
    CHECK(other->check(lease.key, lease.token).value() == Validity::valid);
    CHECK(kept(other->renew(lease, 30s)));
  }
};

}  // namespace

TEST_CASE("late enqueue: of a wait that was left it is refused") {
  Scene s;
  auto w = s.late->enqueue(request(key("k"))).value();
  s.unanswered([&] { return w->poll(0s); });
  CHECK(w->cancel().has_value());
  const Lease next = take(*s.other, request(key("k"), 30s));
  s.arrives();
  CHECK(below(s.server, "dlock/lock/k/").size() == 1);
  s.still_holds(next);
}

TEST_CASE("late enqueue: of a wait that goes on there is one place") {
  Scene s;
  const Request r = request(key("k"));
  auto w = s.late->enqueue(r).value();
  s.unanswered([&] { return w->poll(0s); });
  const auto again = w->poll(0s);
  REQUIRE(granted(again));
  const Lease lease = std::get<Granted>(*again).lease;
  s.arrives();
  CHECK(below(s.server, "dlock/lock/k/").size() == 1);
  CHECK(s.late->release(lease).value() == Released::yes);
  CHECK(below(s.server, "dlock/lock/k/").empty());
}

TEST_CASE("an enqueue whose reply was lost is found again, in its place") {
  Scene s;
  const Lease held = take(*s.other, request(key("k"), 30s));
  auto w = s.late->enqueue(request(key("k"))).value();
  s.proxy.lose_reply(transactions);
  CHECK_FALSE(w->poll(0s));
  REQUIRE(s.proxy.lost_one());
  auto behind = s.other->enqueue(request(key("k"))).value();
  CHECK_FALSE(granted(behind->poll(0s)));
  CHECK(s.other->release(held).value() == Released::yes);
  CHECK(granted(w->poll(5s)));
  CHECK_FALSE(granted(behind->poll(0s)));
}

// It would put the key back on a lease that ends before the deadline.
TEST_CASE("late renewal: the key stays with the newer lease") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 30s));
  s.unanswered([&] { return s.late->renew(lease, 4s); });
  REQUIRE(kept(s.late->renew(lease, 30s)));
  const etcd::KeyValue before = s.at(lease);
  s.arrives();
  CHECK(s.at(lease).lease == before.lease);
  CHECK(s.at(lease).created == before.created);
  CHECK(s.late->release(lease).value() == Released::yes);
}

TEST_CASE("late renewal: of a lock that was released it makes nothing") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 30s));
  s.unanswered([&] { return s.late->renew(lease, 30s); });
  CHECK(s.late->release(lease).value() == Released::yes);
  const Lease next = take(*s.other, request(key("k"), 30s));
  s.arrives();
  CHECK(below(s.server, "dlock/lock/k/").size() == 1);
  s.still_holds(next);
}

TEST_CASE("late lease: nothing has it") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 30s));
  s.unanswered([&] { return s.late->renew(lease, 30s); }, "/v3/lease/grant");
  REQUIRE(kept(s.late->renew(lease, 30s)));
  const etcd::KeyValue before = s.at(lease);
  s.arrives();
  CHECK(s.at(lease).lease == before.lease);
}

// To revoke the lease that is known of, which has no key any more, would leave the key until its
// ttl is over: a queue of hundreds stands still then.
TEST_CASE("a release behind a renewal whose reply was lost frees the key at once") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 60s));
  const std::int64_t before = s.at(lease).lease;
  s.proxy.lose_reply(transactions, true);
  CHECK_FALSE(s.late->renew(lease, 60s));
  REQUIRE(s.proxy.lost_one());
  CHECK(s.at(lease).lease != before);
  CHECK(s.late->release(lease).value() == Released::yes);
  CHECK(below(s.server, "dlock/lock/k/").empty());
  auto w = s.other->enqueue(request(key("k"))).value();
  CHECK(granted(w->poll(0s)));
}

TEST_CASE("a renewal whose reply was lost is kept by the next one") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 30s));
  s.proxy.lose_reply(transactions, true);
  CHECK_FALSE(s.late->renew(lease, 30s));
  REQUIRE(s.proxy.lost_one());
  CHECK(kept(s.late->renew(lease, 30s)));
}

TEST_CASE(
    "late release, removal, request to stop, note and detachment leave the next grant alone") {
  const auto start = [](const Lease& lease, Backend& b) {
    const Starts s = b.starts(lease.key).value();
    return b.note_start(lease, {s.last, Start{s.now, s.now + 3'600'000'000}});
  };
  const std::pair<const char*, std::function<bool(Scene&, const Lease&)>> calls[] = {
      {"release",
       [](Scene& s, const Lease& l) {
         return !s.late->release(l, RunEnd{false, 7});
       }},
      {"force", [](Scene& s, const Lease& l) { return !s.late->force_release(l.key, l.token); }},
      {"revoke", [](Scene& s, const Lease& l) { return !s.late->revoke(l.key); }},
      {"start", [&](Scene& s, const Lease& l) { return !start(l, *s.late); }},
      {"detach", [](Scene& s, const Lease& l) { return !s.late->detach(l, 30s); }}};
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    Scene s;
    const Lease lease = take(*s.late, request(key("k"), 30s));
    // the writing one: those that read come first
    const std::string text = std::string_view{name} == "revoke"    ? "ignore_lease"
                             : std::string_view{name} == "release" ? "request_delete_range"
                             : std::string_view{name} == "force"   ? "request_delete_range"
                                                                   : "request_put";
    s.proxy.hold(text);
    auto outcome = std::async(std::launch::async, [&, &one = call] { return one(s, lease); });
    REQUIRE(s.proxy.holds_one());
    CHECK(outcome.get());
    CHECK(s.other->force_release(lease.key, lease.token).value() == Released::yes);
    const Lease next = take(*s.other, request(key("k"), 30s));
    const etcd::KeyValue before = s.at(next);
    s.arrives();
    const etcd::KeyValue after = s.at(next);
    CHECK(after.created == before.created);
    CHECK(after.modified == before.modified);
    CHECK(below(s.server, "dlock/lock/k/").size() == 1);
    CHECK_FALSE(s.other->starts(key("k")).value().last);
    CHECK_FALSE(s.other->inspect(key("k")).value()->last_run);
    s.still_holds(next);
  }
}

// Told by a broken connection, it is repeated at once.
TEST_CASE("a renewal and a release whose connection breaks are repeated within their time") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 30s));
  s.proxy.lose_reply(transactions);
  CHECK(kept(s.late->renew(lease, 30s)));
  REQUIRE(s.proxy.lost_one());
  s.proxy.lose_reply("request_delete_range");
  CHECK(s.late->release(lease).value() == Released::yes);
  REQUIRE(s.proxy.lost_one());
  CHECK(below(s.server, "dlock/lock/k/").empty());
}

TEST_CASE("a release that was not answered counts as released when it is repeated") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 30s));
  s.proxy.lose_reply("request_delete_range", true);
  CHECK_FALSE(s.late->release(lease));
  REQUIRE(s.proxy.lost_one());
  CHECK(s.late->release(lease).value() == Released::yes);
  CHECK(s.late->release(lease).value() == Released::was_not_held);
}
