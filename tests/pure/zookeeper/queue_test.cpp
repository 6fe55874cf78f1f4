// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/queue/queue.hpp"
#include <catch2/catch.hpp>

using namespace dlock;
using namespace dlock::zookeeper;
using What = Verdict::What;

namespace {

const Owner owner = *Owner::parse("0123456789abcdef0123456789abcdef");

std::string name(std::string_view kind, std::string_view number) {
  return "_c_x-__" + std::string{kind} + "__" + std::string{number};
}
const std::string w1 = name("WRIT", "0000000001"), r2 = name("READ", "0000000002"),
                  r3 = name("READ", "0000000003"), w4 = name("WRIT", "0000000004"),
                  r5 = name("READ", "0000000005");

}  // namespace

TEST_CASE("sequence numbers are compared across the wrap") {
  CHECK(before(1, 2));
  CHECK_FALSE(before(2, 1));
  CHECK_FALSE(before(7, 7));
  CHECK(before(INT32_MAX, INT32_MIN));
  CHECK_FALSE(before(INT32_MIN, INT32_MAX));
  CHECK(before(-1, 0));
}

TEST_CASE("the queue is in order across the wrap") {
  const auto old = name("WRIT", "2147483647"), next = name("WRIT", "-2147483648"),
             third = name("WRIT", "-2147483647");
  const auto d = Directory::of(Dialect::sequential, {third, old, next});
  REQUIRE(d.queue.size() == 3);
  CHECK(d.queue[0].name == old);
  CHECK(d.queue[1].name == next);
  CHECK(d.queue[2].name == third);
  CHECK(d.foreign.empty());
  CHECK(decide(d, old, 1).what == What::run);
  CHECK(decide(d, next, 1).watch == old);
  const auto d2 =
      Directory::of(Dialect::sequential, {name("WRIT", "0000000000"), name("WRIT", "-000000001")});
  REQUIRE(d2.queue.size() == 2);
  CHECK(d2.queue[0].number == -1);
}

TEST_CASE("node names of each dialect") {
  CHECK(node_prefix(Dialect::sequential, owner, Mode::shared) ==
        "_c_01234567-89ab-cdef-0123-456789abcdef-__DLCK__-__READ__");
  CHECK(node_prefix(Dialect::curator, owner, Mode::exclusive) ==
        "_c_01234567-89ab-cdef-0123-456789abcdef-lock-");
  CHECK(node_prefix(Dialect::kazoo, owner, Mode::exclusive) ==
        "0123456789abcdef0123456789abcdef__lock__");
  for (const Dialect d : {Dialect::sequential, Dialect::curator, Dialect::kazoo}) {
    const std::string mine = node_prefix(d, owner, Mode::exclusive) + "0000000042";
    REQUIRE(parse_member(d, mine));
    CHECK(parse_member(d, mine)->number == 42);
    CHECK(mine.starts_with(guid_of(d, owner)));
    for (const Dialect other : {Dialect::sequential, Dialect::curator, Dialect::kazoo})
      if (other != d) {
        CHECK_FALSE(parse_member(other, mine));
        CHECK(Directory::of(other, {mine}).foreign == mine);
      }
  }
  for (const char* broken :
       {"_c_x-__WRIT__", "_c_x-__WRIT__1", "_c_x-__WRIT__00000000001", "_c_x-__WRIT__9999999999",
        "_c_x-__WRIT__-2147483649", "_c_x-__WRIT__000000000x", "x"})
    CHECK_FALSE(parse_member(Dialect::sequential, broken));
  CHECK(Directory::of(Dialect::kazoo, {"x__rlock__0000000001"}).foreign == "x__rlock__0000000001");
  CHECK(Directory::of(Dialect::curator, {"sub-key"}).foreign.empty());
}

TEST_CASE("an exclusive contender waits for its predecessor, a reader for the last writer") {
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

TEST_CASE("Curator's downgraded writer: its read node has the writer's number and sorts after it") {
  const auto d = Directory::of(Dialect::sequential, {name("READ", "0000000001"), w1});
  CHECK(d.queue[0].name == w1);
}

TEST_CASE(
    "permits: those within the limit run, the next watches the directory, the others their "
    "predecessor") {
  std::vector<std::string> all;
  for (char c = '1'; c <= '5'; ++c)
    all.push_back(name("SEMA__-__WRIT", std::string("000000000") + c));
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
}

TEST_CASE("readers and permits run together; a permit counts every earlier contender") {
  const std::string r0 = name("DLCK__-__READ", "0000000000"),
                    p1 = name("SEMA__-__WRIT", "0000000001"),
                    p2 = name("SEMA__-__WRIT", "0000000002"),
                    r8 = name("DLCK__-__READ", "0000000008"),
                    p9 = name("SEMA__-__WRIT", "0000000009"), w7 = name("WRIT", "0000000007");
  const auto d = Directory::of(Dialect::sequential, {r0, p1, p2, r8, p9});
  for (const auto& runs : {r0, p1, r8}) CHECK(decide(d, runs, 2).what == What::run);
  CHECK(decide(d, p2, 2).what == What::wait_room);
  CHECK(decide(d, p9, 2).what == What::wait_turn);
  CHECK(decide(d, p9, 2).watch == p2);  // not the reader, whose end changes nothing here
  CHECK(decide(d, p9, 4).what == What::wait_room);
  CHECK(decide(d, p9, 5).what == What::run);
  const auto behind = Directory::of(Dialect::sequential, {p1, w7, r8, p9});
  CHECK(decide(behind, w7, 1).watch == p1);
  CHECK(decide(behind, r8, 1).watch == w7);
  CHECK(decide(behind, p9, 9).watch == w7);
}

TEST_CASE("Curator's readers and permits wait for each other, dlock's readers for neither") {
  const std::string r1 = name("READ", "0000000001"), p2 = name("SEMA__-__WRIT", "0000000002"),
                    own = name("DLCK__-__READ", "0000000003"), r6 = name("READ", "0000000006"),
                    p7 = name("SEMA__-__WRIT", "0000000007");
  const auto d = Directory::of(Dialect::sequential, {p7, r6, own, p2, r1});
  for (const auto& runs : {r1, own}) CHECK(decide(d, runs, 9).what == What::run);
  for (const auto& [me, watch] : {std::pair{p2, r1}, {r6, p2}, {p7, r6}}) {
    const Verdict v = decide(d, me, 9);
    CHECK(v.what == What::wait_deletion);
    CHECK(v.watch == watch);
  }
  CHECK(decide(d, p7, 9).ahead == 2);
  const auto ended = Directory::of(Dialect::sequential, {p7, own, p2});
  for (const auto& runs : {p2, own, p7}) CHECK(decide(ended, runs, 9).what == What::run);
}

TEST_CASE(
    "Curator sorts dlock's permits as writers and its readers as its own, and knows no slots") {
  // Curator's rule: a name that ends in one of its tags and a number is sorted by that, any other
  // by its whole name and after those; a reader waits for every writer before it.
  const auto number = [](std::string name) {
    for (const char* tag : {"__READ__", "__WRIT__"})
      if (const std::size_t at = name.rfind(tag); at != name.npos) name = name.substr(at + 8);
    return name;
  };
  const std::string theirs = "_c_y-__WRIT__0000000007";
  for (const Mode mode : {Mode::exclusive, Mode::permit}) {
    const std::string mine = node_prefix(Dialect::sequential, owner, mode) + "0000000006";
    CHECK(parse_member(Dialect::sequential, mine)->mode == mode);
    CHECK(number(mine) < number(theirs));
    CHECK(mine.find("__WRIT__") != mine.npos);
  }
  const std::string reader = node_prefix(Dialect::sequential, owner, Mode::shared) + "0000000006";
  CHECK(number(reader) == "0000000006");
  CHECK(reader.find("__WRIT__") == reader.npos);
  for (const std::string& beside : {slot_node(3)}) {
    CHECK(number(beside) > number(theirs));
    CHECK(beside.find("__WRIT__") == beside.npos);
    CHECK(beside.find("__READ__") == beside.npos);
    CHECK_FALSE(is_sequential(beside));
  }
}
