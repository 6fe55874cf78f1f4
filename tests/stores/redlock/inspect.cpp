// SPDX-License-Identifier: Apache-2.0
// What inspect shows when masters disagree, and what --doctor reports.
#include "redlock_faults.hpp"

using namespace dlock;
using namespace dlock::test;
using Level = Finding::Level;

namespace {

bool noted(const KeyView& v, const std::string& text) {
  return std::any_of(v.notes.begin(), v.notes.end(),
                     [&](const std::string& n) { return n.find(text) != n.npos; });
}

}  // namespace

TEST_CASE("inspect: how many masters agree, and what the others have") {
  RedlockMasters m;
  auto backend = open_redlock(m.url(), quick(2s, 2s));
  const Key k = key("k");
  const Lease l = granted_within(*backend, request(k, 300s));
  REQUIRE(has_all_votes(m, *backend, l, "k", 300s));
  const auto name = [&](std::size_t i) {
    return fmt::format("127.0.0.1:{}", m.servers[i]->port());
  };
  KeyView v;
  const auto agree = [&](const char* how_many) {  // and are heard in time
    return eventually([&] {
      v = *answered([&] { return backend->inspect(k); });
      return v.notes.front() == how_many;
    });
  };
  CHECK(agree("5/5 nodes agree"));
  CHECK(noted(v, name(2) + ": round trip "));
  CHECK((noted(v, "clock +0.0") || noted(v, "clock -0.0")));
  REQUIRE(v.holders.size() == 1);
  CHECK(v.holders[0].granted_at);
  m.servers[1]->command({"DEL", "k"});
  m.servers[3]->command({"SET", "k", "a foreign value", "PX", "5550000"});
  CHECK(agree("3/5 nodes agree"));
  std::string all;
  for (const auto& n : v.notes) all += n + "\n";
  INFO(all);
  CHECK(noted(v, name(1) + ": free"));
  CHECK(noted(v, name(3) + ": held by another program, ends in "));
  m.servers[3]->command({"DEL", "k"});
  m.servers[3]->freeze();
  CHECK(agree("3/5 nodes agree"));
  CHECK(noted(v, name(3) + ": ? ("));
  m.servers[0]->command({"DEL", "k"});
  m.servers[3]->thaw();
  CHECK(eventually([&] {
    const auto now = backend->inspect(k);
    return now && *now && (*now)->holders.empty() && noted(**now, "no majority");
  }));
  CHECK(lost(renewed(*backend, l, 300s)));
}

TEST_CASE("doctor: each master, and masters that are not independent") {
  RedlockMasters m{
      {.config = {"appendonly yes", "appendfsync always", "maxmemory-policy noeviction"}}};
  auto backend = open_redlock(m.url(""), patient());
  auto found = backend->doctor().value();
  const auto about = [&](const std::string& what) {
    for (const Finding& f : found)
      if (f.what == what) return f;
    return Finding{Level::unknown, "", "nothing said", ""};
  };
  CHECK(about("masters").level == Level::good);
  CHECK(about("masters on one host").level == Level::bad);  // all five
  for (const auto& s : m.servers) {
    const std::string of = fmt::format(" of 127.0.0.1:{}", s->port());
    for (const char* what :
         {"version", "persistence", "maxmemory-policy", "replicas", "clock", "rights"}) {
      CAPTURE(what, about(what + of).seen);
      CHECK(about(what + of).level == Level::good);
    }
  }
  m.servers[2]->command({"CONFIG", "SET", "appendfsync", "everysec"});
  m.servers[4]->kill();
  found = backend->doctor().value();
  CHECK(about(fmt::format("persistence of 127.0.0.1:{}", m.servers[2]->port())).level ==
        Level::warning);
  CHECK(about(fmt::format("answer of 127.0.0.1:{}", m.servers[4]->port())).level == Level::bad);
  // it leaves nothing behind
  for (std::size_t i = 0; i < 4; ++i) CHECK(m.servers[i]->command({"DBSIZE"}).integer == 0);
}
