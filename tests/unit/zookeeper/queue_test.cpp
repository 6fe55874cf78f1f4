// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/queue.hpp"
#include <catch2/catch.hpp>

using namespace dlock;
using namespace dlock::zookeeper;
using What = Verdict::What;

namespace {

const Owner someone = *Owner::parse("0123456789abcdef0123456789abcdef");

std::string name(std::string_view kind, std::string_view number) {
  return "_c_x-__" + std::string{kind} + "__" + std::string{number};
}
const std::string w1 = name("WRIT", "0000000001"), r2 = name("READ", "0000000002"), r3 = name("READ", "0000000003"),
                  w4 = name("WRIT", "0000000004"), r5 = name("READ", "0000000005");

}  // namespace

TEST_CASE("numbers are compared across the wrap") {
  CHECK(before(1, 2));
  CHECK_FALSE(before(2, 1));
  CHECK_FALSE(before(7, 7));
  CHECK(before(INT32_MAX, INT32_MIN));
  CHECK_FALSE(before(INT32_MIN, INT32_MAX));
  CHECK(before(-1, 0));
}

TEST_CASE("the queue is in order across the wrap") {
  const auto old = name("WRIT", "2147483647"), next = name("WRIT", "-2147483648"), third = name("WRIT", "-2147483647");
  const auto d = Directory::of(Dialect::sequential, {third, old, next});
  REQUIRE(d.queue.size() == 3);
  CHECK(d.queue[0].name == old);
  CHECK(d.queue[1].name == next);
  CHECK(d.queue[2].name == third);
  CHECK(d.foreign.empty());
  CHECK(decide(d, old, 1).what == What::run);
  CHECK(decide(d, next, 1).watch == old);
  const auto d2 = Directory::of(Dialect::sequential, {name("WRIT", "0000000000"), name("WRIT", "-000000001")});
  REQUIRE(d2.queue.size() == 2);
  CHECK(d2.queue[0].number == -1);
}

TEST_CASE("names of each dialect") {
  CHECK(node_prefix(Dialect::sequential, someone, Mode::shared) == "_c_01234567-89ab-cdef-0123-456789abcdef-__READ__");
  CHECK(node_prefix(Dialect::curator, someone, Mode::exclusive) == "_c_01234567-89ab-cdef-0123-456789abcdef-lock-");
  CHECK(node_prefix(Dialect::kazoo, someone, Mode::exclusive) == "0123456789abcdef0123456789abcdef__lock__");
  for (const Dialect d : {Dialect::sequential, Dialect::curator, Dialect::kazoo}) {
    const std::string mine = node_prefix(d, someone, Mode::exclusive) + "0000000042";
    REQUIRE(parse_member(d, mine));
    CHECK(parse_member(d, mine)->number == 42);
    CHECK(mine.starts_with(guid_of(d, someone)));
    for (const Dialect other : {Dialect::sequential, Dialect::curator, Dialect::kazoo})
      if (other != d) {
        CHECK_FALSE(parse_member(other, mine));
        CHECK(Directory::of(other, {mine}).foreign == mine);
      }
  }
  for (const char* broken : {"_c_x-__WRIT__", "_c_x-__WRIT__1", "_c_x-__WRIT__00000000001", "_c_x-__WRIT__9999999999",
                             "_c_x-__WRIT__-2147483649", "_c_x-__WRIT__000000000x", "x"})
    CHECK_FALSE(parse_member(Dialect::sequential, broken));
  CHECK(Directory::of(Dialect::kazoo, {"x__rlock__0000000001"}).foreign == "x__rlock__0000000001");
  CHECK(Directory::of(Dialect::curator, {"sub-key"}).foreign.empty());
}

TEST_CASE("an exclusive contender waits for the one before it, a reader for the last writer") {
  const auto d = Directory::of(Dialect::sequential, {r5, w4, r3, r2, w1});
  CHECK(decide(d, w1, 1).what == What::run);
  for (const auto& [me, watch] : {std::pair{r2, w1}, {r3, w1}, {w4, r3}, {r5, w4}}) {
    const Verdict v = decide(d, me, 1);
    CHECK(v.what == What::wait_deletion);
    CHECK(v.watch == watch);
    CHECK(v.in_the_way == w1);
  }
  CHECK(decide(d, r5, 1).ahead == 3);
  CHECK(decide(d, "other", 1).what == What::missing);
  const auto later = Directory::of(Dialect::sequential, {r5, w4, r3, r2});
  CHECK(decide(later, r2, 1).what == What::run);
  CHECK(decide(later, r3, 1).what == What::run);
  CHECK(decide(later, w4, 1).watch == r3);
  CHECK(decide(later, w4, 1).ahead == 0);
}

TEST_CASE("Curator's downgraded writer: its read node has the writer's number and comes after it") {
  const auto d = Directory::of(Dialect::sequential, {name("READ", "0000000001"), w1});
  CHECK(d.queue[0].name == w1);
}

TEST_CASE("permits: as many run as the limit, the next watches the directory, the others their predecessor") {
  std::vector<std::string> all;
  for (char c = '1'; c <= '5'; ++c) all.push_back(name("SEMA", std::string("000000000") + c));
  auto names = all;
  names.emplace_back("slot-0");
  names.emplace_back("slot-1");
  const auto d = Directory::of(Dialect::sequential, names);
  CHECK(d.slots == std::vector<unsigned>{0, 1});
  CHECK(decide(d, all[0], 2).what == What::run);
  CHECK(decide(d, all[1], 2).what == What::run);
  CHECK(decide(d, all[2], 2).what == What::wait_room);
  CHECK(decide(d, all[3], 2).what == What::wait_turn);
  CHECK(decide(d, all[3], 2).watch == all[2]);
  CHECK(decide(d, all[3], 2).ahead == 1);
  // Modes do not mix.
  const auto mixed = Directory::of(Dialect::sequential, {name("READ", "0000000000"), all[0], all[1]});
  CHECK(decide(mixed, all[0], 2).what == What::wait_deletion);
  CHECK(decide(mixed, all[1], 2).watch == name("READ", "0000000000"));
}

TEST_CASE("lock-delay marks of who is gone") {
  const std::string here = delay_node(std::chrono::seconds{2}, w1), gone = delay_node(std::chrono::milliseconds{5}, r2);
  const auto d = Directory::of(Dialect::sequential, {w1, here, gone});
  REQUIRE(d.delays.size() == 2);
  REQUIRE(d.vanished().size() == 1);
  CHECK(d.vanished()[0].holder == r2);
  CHECK(d.vanished()[0].delay == std::chrono::milliseconds{5});
  CHECK(d.queue.size() == 1);
}
