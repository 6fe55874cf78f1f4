// SPDX-License-Identifier: Apache-2.0
#include "etcd/queue/contender.hpp"
#include <catch2/catch.hpp>
#include <random>

using namespace dlock;
using namespace dlock::etcd;

namespace {

// One letter each, in order: X exclusive, S shared, P a permit that waits, p one that holds, F of
// another program.
Contenders queue(std::string_view letters) {
  Contenders all;
  unsigned slot = 0;
  for (const char c : letters) {
    Contender one;
    one.kv.created = static_cast<std::int64_t>(all.size()) + 1;
    one.kv.key = "q/" + std::to_string(all.size());
    if (c != 'F') {
      one.record = Record{};
      one.record->mode = c == 'X' ? Mode::exclusive : c == 'S' ? Mode::shared : Mode::permit;
      if (c == 'p') one.record->slot = slot++;
    }
    all.push_back(std::move(one));
  }
  return all;
}
using What = Verdict::What;

}  // namespace

TEST_CASE("etcd queue: who may run, and what the others watch") {
  const auto verdict = [](std::string_view before, Mode mode, unsigned limit = 2) {
    return decide(queue(before), mode, limit);
  };
  CHECK(verdict("", Mode::exclusive).what == What::run);
  CHECK(verdict("SS", Mode::exclusive).watch == "q/1");
  CHECK(verdict("SS", Mode::shared).what == What::run);
  CHECK(verdict("SXS", Mode::shared).watch == "q/1");
  CHECK(verdict("F", Mode::shared).watch == "q/0");
  CHECK(verdict("pS", Mode::permit, 3).what == What::run);
  CHECK(verdict("pS", Mode::permit).what == What::wait_room);
  CHECK(verdict("ppPP", Mode::permit).what == What::wait_turn);
  CHECK(verdict("ppPP", Mode::permit).watch == "q/3");
  CHECK(verdict("Xp", Mode::permit, 9).watch == "q/0");
}

TEST_CASE("etcd queue: holders") {
  const Contenders all = queue("pSPX");
  CHECK(holds(all, 0));
  CHECK(holds(all, 1));
  CHECK_FALSE(holds(all, 2));
  CHECK_FALSE(holds(all, 3));
  CHECK(lowest_free_slot(all) == 1);
  CHECK(lowest_free_slot(queue("")) == 0);
}

// Never do two that exclude each other hold, whoever comes and goes.
TEST_CASE("etcd queue: random arrivals and departures keep exclusion, and nobody waits for ever") {
  std::mt19937 random(7);
  for (int run = 0; run < 300; ++run) {
    const unsigned limit = 1 + random() % 3;
    Contenders all;
    std::int64_t revision = 0;
    for (int step = 0; step < 60; ++step) {
      if (random() % 2 == 0 || all.empty()) {
        Contenders one = queue(std::string_view{"XSP"}.substr(random() % 3, 1));
        one[0].kv.created = ++revision;
        one[0].kv.key = "q/" + std::to_string(revision);
        all.push_back(one[0]);
      } else {
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(random() % all.size()));
      }
      for (std::size_t i = 0; i < all.size(); ++i) {  // permits that may run claim a slot
        const Contenders before(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i));
        if (all[i].mode() == Mode::permit && !all[i].has_slot() &&
            decide(before, Mode::permit, limit).what == What::run)
          all[i].record->slot = lowest_free_slot(all);
      }
      std::size_t exclusive = 0, others = 0, permits = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Contenders before(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i));
        const bool runs = decide(before, all[i].mode(), limit).what == What::run;
        if (all[i].mode() != Mode::permit) CHECK(runs == holds(all, i));
        if (!holds(all, i)) continue;
        exclusive += all[i].mode() == Mode::exclusive;
        others += all[i].mode() != Mode::exclusive;
        permits += all[i].mode() == Mode::permit;
      }
      CHECK(exclusive + (exclusive > 0 ? others : 0) <= 1);
      CHECK(permits <= limit);
      if (!all.empty()) CHECK(exclusive + others > 0);
    }
  }
}

TEST_CASE("etcd record: written and read") {
  Request r{Key::parse(std::string(200, '/')).value(), Owner::random()};
  r.mode = Mode::permit;
  r.limit = 3;
  r.ttl = std::chrono::seconds{10};
  r.lock_delay = std::chrono::seconds{2};
  r.identity = Identity::mine("why & what");
  Record record = Record::of(r);
  record.slot = 2;
  record.granted = 17;
  record.revoked = true;
  const auto again = Record::parse(record.text());
  REQUIRE(again);
  CHECK(again->text() == record.text());
  CHECK(again->key == r.key.text());
  CHECK(again->who.reason == "why & what");
  CHECK(view_of({.kv = {}, .name = "", .record = again}, 20).who.limit == 3);
  for (const char* wrong : {"", "dlock1", "dlock2 X - - 1 1 0 - - ", "dlock1 Q - - 1 1 0 - - ",
                            "dlock1 X - - x 1 0 - - "})
    CHECK_FALSE(Record::parse(wrong));
}
