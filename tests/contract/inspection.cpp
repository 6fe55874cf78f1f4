// SPDX-License-Identifier: Apache-2.0
// What inspect and list show, and hostile key names.
#include <algorithm>
#include "contract/helpers.hpp"

using namespace dlock;
using namespace dlock::contract;

CONTRACT_CASE("a key that was never used") {
  const auto backend = store.open({});
  CHECK_FALSE(backend->inspect(key("k")).value().has_value());
  CHECK(list(*backend).value().empty());
  CHECK(backend->check(key("k"), FencingToken{1}).value() == Validity::stale);
  CHECK(backend->release(Lease{key("k"), Owner::random()}).value() == Released::was_not_held);
  CHECK(backend->force_release(key("k"), std::nullopt).value() == Released::was_not_held);
  CHECK_FALSE(backend->inspect(key("k")).value().has_value());  // inspecting creates nothing
  CHECK(list(*backend).value().empty());
}

CONTRACT_CASE("inspect shows holders and waiters") {
  const auto backend = store.open({}), other = store.open({});
  const Granted g = take(*backend, request("k"));
  auto w = in_queue(*other, request("k"));
  const auto seen = other->inspect(key("k")).value().value();
  CHECK(seen.key == "k");
  CHECK(seen.fence == g.lease.token);
  REQUIRE(seen.holders.size() == 1);
  const HolderView& h = seen.holders[0];
  CHECK(h.token == g.lease.token);
  CHECK(h.mode == Mode::exclusive);
  CHECK_FALSE(h.vanished);
  CHECK(h.who.pid == ::getpid());
  CHECK(h.attached == (subject().traits->liveness == Liveness::process));
  CHECK(h.remaining.has_value() == (subject().traits->liveness != Liveness::process));
  CHECK(h.id.size() >= 4);
  CHECK(h.id.size() <= 16);
  CHECK(g.lease.owner.hex().starts_with(h.id));
  if (seen.waiters_known) {
    REQUIRE(seen.waiters.size() == 1);
    CHECK(seen.waiters[0].who.reason == "contract");
  }
  CHECK(w->cancel().has_value());
  backend->release(g.lease).value();
  const auto after = other->inspect(key("k")).value();
  if (subject().remembers) {
    REQUIRE(after.has_value());
    CHECK(after->fence == g.lease.token);
  }
  CHECK((!after || (after->holders.empty() && after->waiters.empty())));
}

CONTRACT_CASE("a lease that has ended is shown as such until the key is taken") {
  need(subject().traits->keeps_last_run && subject().traits->native && subject().ended_stay,
       "a record in which holders stay");
  const auto backend = store.open({}), other = store.open({});
  const Granted g = take(*backend, detached(request("k"), ending_ttl()));
  const Granted fine = take(*backend, request("fine"));
  CHECK(other->check(key("k"), g.lease.token).value() == Validity::valid);
  pass(ending_ttl());
  CHECK(other->check(key("k"), g.lease.token).value() == Validity::stale);
  const auto all = list(*other).value();
  REQUIRE(all.size() == 2);
  for (const KeyView& seen : {other->inspect(key("k")).value().value(), all.back()}) {
    CHECK(seen.key == "k");
    for (const std::string& note : seen.notes) CHECK(note.find("shown") == note.npos);
    REQUIRE(seen.holders.size() == 1);
    CHECK(seen.holders[0].ended());
    CHECK(seen.holders[0].vanished);
    CHECK(seen.holders[0].token == g.lease.token);
    CHECK(seen.holders[0].who.reason == "contract");
    CHECK_FALSE(seen.holders[0].granted_at);
  }
  CHECK(all.front().holders.size() == 1);
  CHECK_FALSE(all.front().holders[0].ended());
  CHECK(other->revoke(key("k")).value() == Released::was_not_held);
  CHECK(other->force_release(key("k"), g.lease.token).value() == Released::was_not_held);
  const Granted next = take(*other, request("k"));
  const auto after = backend->inspect(key("k")).value().value();
  REQUIRE(after.holders.size() == 1);
  CHECK(after.holders[0].token == next.lease.token);
  CHECK(other->release(next.lease).value() == Released::yes);
  CHECK(backend->release(fine.lease).value() == Released::yes);
}

CONTRACT_CASE("beside one that has ended, those that hold come first") {
  need(subject().traits->keeps_last_run && subject().traits->permits && subject().ended_stay,
       "a record in which holders stay, and permits");
  const auto backend = store.open({}), other = store.open({});
  const Granted short_one = take(*backend, detached(request("k", Mode::permit, 3), ending_ttl()));
  const Granted g = take(*backend, request("k", Mode::permit, 3));
  pass(ending_ttl());
  const auto seen = other->inspect(key("k")).value().value();
  REQUIRE(seen.holders.size() == 2);
  CHECK(seen.holders[0].token == g.lease.token);
  CHECK_FALSE(seen.holders[0].ended());
  CHECK(seen.holders[1].ended());
  CHECK(backend->release(g.lease).value() == Released::yes);
}

CONTRACT_CASE("list shows every key in byte order") {
  const auto backend = store.open({});
  std::vector<Granted> held;
  for (const char* name : {"b", "a.b", "a", "aB", "ab"})
    held.push_back(take(*backend, request(name)));
  backend->release(held[2].lease).value();
  const auto other = store.open({});
  std::vector<std::string> names;
  const auto all = list(*other).value();
  for (const KeyView& v : all) {
    names.push_back(v.key);
    CHECK(v.holders.size() == (v.key == "a" ? 0 : 1));
  }
  if (!subject().remembers && !std::binary_search(names.begin(), names.end(), "a"))
    names.insert(names.begin(), "a");
  CHECK(names == std::vector<std::string>{"a", "a.b", "aB", "ab", "b"});
}

CONTRACT_CASE("hostile key names are names") {
  std::vector<std::string> names;
  const auto add = [&](std::initializer_list<std::string> some) {
    names.insert(names.end(), some.begin(), some.end());
  };
  // paths, and what stands for another byte
  add({"../../etc/passwd", "/", "//", "/etc", ".", "..", "...", ".hidden", "a/b", "a/../b", "a%2Fb",
       "%", "%00", "%2E", "%~"});
  // words of a shell and of URLs, and names of dlock's own
  add({"a b", " ", "-n", "--key", "*", "$(id)", "`id`", "a;b", "a|b", "\"'", "\\", "state", "1",
       "?prefix=x", "#", "{k}"});
  // beyond ASCII, nearly the same, and long
  add({"käse", "日本語", "🔒", "İ", "A", "a", "a ", "a."});
  add({std::string(200, 'x'), std::string(199, 'x') + "y", std::string(200, '/'),
       std::string(199, '/') + ".", std::string(120, 'x') + "%~" + std::string(40, '0')});
  for (std::string long_one; names.size() < 48;)
    names.push_back(long_one = std::string(names.size() + 100, '%'));
  const auto backend = store.open({}), other = store.open({});
  std::vector<std::string> taken;
  std::vector<Lease> leases;
  for (const std::string& name : names) {
    Request r = request(name);
    r.ttl = 2min;  // the longest that each store allows: nothing renews some 40 leases
    auto w = backend->enqueue(r);
    if (!w) {  // shared with other programs, so impossible in some stores
      CAPTURE(name);
      CHECK_FALSE(subject().traits->native);
      CHECK(w.error().code == Errc::usage);
      continue;
    }
    leases.push_back(take(**w).lease);
    taken.push_back(name);
  }
  CHECK(taken.size() >= 30);
  for (const std::string& name : taken) {
    CAPTURE(name);
    CHECK_FALSE(free_now(*other, request(name)));
    CHECK(other->inspect(key(name)).value().value().key == name);
  }
  std::vector<std::string> listed;
  const auto all = list(*other).value();
  for (const KeyView& v : all) listed.push_back(v.key);
  std::sort(taken.begin(), taken.end());
  CHECK(listed == taken);
  for (const Lease& lease : leases) CHECK(backend->release(lease).value() == Released::yes);
  for (const std::string& name : taken) CHECK(free_now(*other, request(name)));
}

CONTRACT_CASE("an erased key is as one that was never used") {
  const auto backend = store.open({});
  CHECK(backend->erase(key("k")).has_value());  // missing
  for (const char* name : {"k", "l"}) backend->release(take(*backend, request(name)).lease).value();
  const auto other = store.open({});
  CHECK(other->erase(key("k")).has_value());
  CHECK_FALSE(other->inspect(key("k")).value().has_value());
  if (subject().remembers) CHECK(other->inspect(key("l")).value().has_value());
  const Granted anew = take(*other, request("k"));
  CHECK(other->release(anew.lease).value() == Released::yes);
  for (const char* name : {"k", "l"}) CHECK(other->erase(key(name)).has_value());
  CHECK(other->names().value().empty());
}
