// SPDX-License-Identifier: Apache-2.0
// A request arrives when its sender has given it up and the lock is another's, or has been renewed:
// what it hits, for each kind of request.
#include <functional>
#include <tuple>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

constexpr const char* transactions = "/v3/kv/txn";

struct Scene {
  EtcdServer server{in_memory()};
  Proxy proxy{port_of(server.host())};
  std::unique_ptr<Backend> late = open_etcd(through(proxy), quick(700ms)),
                           other = open_etcd(server.url(), patient());

  // The next such request of `late` does not arrive before let_go().
  template <class Call>
  void unanswered(Call call, const char* text = transactions) {
    proxy.hold(text);
    fails(call, &Proxy::holds_one);
  }
  // Its reply is lost.
  template <class Call>
  void carried_out(Call call, const char* text = transactions) {
    proxy.lose_reply(text, true);
    fails(call, &Proxy::lost_one);
  }
  template <class Call>
  void fails(Call call, bool (Proxy::*seen)(Duration)) {
    const auto answer = call_until([&] { return (proxy.*seen)(2s); }, call);
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
    CHECK(kept(other->renew(lease, 600s)));
  }
};

}  // namespace

TEST_CASE("late enqueue: of a wait that was left it is refused") {
  Scene s;
  auto w = s.late->enqueue(request(key("k"), 600s)).value();
  s.unanswered([&] { return w->poll(0s); });
  CHECK(w->cancel().has_value());
  const Lease next = take(*s.other, request(key("k"), 600s));
  s.arrives();
  CHECK(below(s.server, "dlock/lock/k/").size() == 1);
  s.still_holds(next);
}

TEST_CASE("late enqueue: of a wait that goes on there is one place") {
  Scene s;
  auto w = s.late->enqueue(request(key("k"), 600s)).value();
  s.unanswered([&] { return w->poll(0s); });
  const Lease lease = granted_within(*w);
  s.arrives();
  CHECK(below(s.server, "dlock/lock/k/").size() == 1);
  release_or_fail(*s.late, lease);
  CHECK(below(s.server, "dlock/lock/k/").empty());
}

TEST_CASE("an enqueue whose reply was lost is found again, in its place") {
  Scene s;
  const Lease held = take(*s.other, request(key("k"), 600s));
  auto w = s.late->enqueue(request(key("k"), 600s)).value();
  s.proxy.lose_reply(transactions);
  CHECK_FALSE(w->poll(0s));
  REQUIRE(s.proxy.lost_one());
  auto behind = s.other->enqueue(request(key("k"), 600s)).value();
  CHECK_FALSE(granted(behind->poll(0s)));
  CHECK(s.other->release(held).value() == Released::yes);
  granted_within(*w);
  CHECK_FALSE(granted(behind->poll(0s)));
}

// It would put the key back on a lease that ends before the deadline.
TEST_CASE("late renewal: the key stays with the newer lease") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 600s));
  s.unanswered([&] { return s.late->renew(lease, 4s); });
  REQUIRE(kept(renewed(*s.late, lease, 600s)));
  const etcd::KeyValue before = s.at(lease);
  s.arrives();
  CHECK(s.at(lease).lease == before.lease);
  CHECK(s.at(lease).created == before.created);
  release_or_fail(*s.late, lease);
}

TEST_CASE("late renewal: of a lock that was released it makes nothing") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 600s));
  s.unanswered([&] { return s.late->renew(lease, 600s); });
  release_or_fail(*s.late, lease);
  const Lease next = take(*s.other, request(key("k"), 600s));
  s.arrives();
  CHECK(below(s.server, "dlock/lock/k/").size() == 1);
  s.still_holds(next);
}

TEST_CASE("late lease: nothing has it") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 600s));
  s.unanswered([&] { return s.late->renew(lease, 600s); }, "/v3/lease/grant");
  REQUIRE(kept(renewed(*s.late, lease, 600s)));
  const etcd::KeyValue before = s.at(lease);
  s.arrives();
  CHECK(s.at(lease).lease == before.lease);
}

// To revoke the lease that is known of, which has no key any more, would leave the key until its
// ttl is over: a queue of hundreds stands still then.
TEST_CASE("a release behind a renewal whose reply was lost frees the key at once") {
  Scene s;
  const Lease lease = take(*s.late, request(key("k"), 600s));
  const std::int64_t before = s.at(lease).lease;
  s.carried_out([&] { return s.late->renew(lease, 600s); });
  CHECK(s.at(lease).lease != before);
  release_or_fail(*s.late, lease);
  CHECK(below(s.server, "dlock/lock/k/").empty());
  auto w = s.other->enqueue(request(key("k"), 600s)).value();
  CHECK(granted(w->poll(0s)));
}

TEST_CASE(
    "late release, removal, request to stop, note and detachment leave the next grant alone") {
  const auto start = [](const Lease& lease, Backend& b) {
    const RunStarts s = answered([&] { return b.starts(lease.key); });
    return b.note_start(lease, {s.last, RunStart{s.now, s.now + 3'600'000'000}});
  };
  // the writing request is held back: those that read come first
  using Unit = Result<void>;
  const auto unit = [](const auto& r) { return r ? Unit{} : Unit{fail(r.error())}; };
  const std::tuple<const char*, const char*, std::function<Unit(Scene&, const Lease&)>> calls[] = {
      {"release", "request_delete_range",
       [&](Scene& s, const Lease& l) {
         return unit(s.late->release(l, RunEnd{false, 7}));
       }},
      {"force", "request_delete_range",
       [&](Scene& s, const Lease& l) { return unit(s.late->force_release(l.key, l.token)); }},
      {"revoke", "ignore_lease",
       [&](Scene& s, const Lease& l) { return unit(s.late->revoke(l.key)); }},
      {"start", "request_put", [&](Scene& s, const Lease& l) { return unit(start(l, *s.late)); }},
      {"detach", "request_put",
       [&](Scene& s, const Lease& l) { return unit(s.late->detach(l, 600s)); }}};
  for (const auto& [name, text, call] : calls) {
    CAPTURE(name);
    Scene s;
    const Lease lease = take(*s.late, request(key("k"), 600s));
    s.unanswered([&, &one = call] { return one(s, lease); }, text);
    CHECK(s.other->force_release(lease.key, lease.token).value() == Released::yes);
    const Lease next = take(*s.other, request(key("k"), 600s));
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
