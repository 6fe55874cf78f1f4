// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include "zookeeper/records.hpp"
#include "zookeeper/session/session.hpp"

using namespace dlock;
using namespace dlock::zookeeper;

TEST_CASE("a record survives encoding") {
  Request r{.key = Key::parse("k").value(), .owner = Owner::random()};
  r.mode = Mode::permit;
  r.limit = 3;
  r.ttl = std::chrono::seconds{30};
  r.lock_delay = std::chrono::seconds{5};
  r.identity = Identity::mine("why not");
  NodeRecord record = NodeRecord::of(r);
  record.slot = 2;
  const auto again = NodeRecord::parse(record.text());
  REQUIRE(again);
  CHECK(again->id == r.owner.hex().substr(0, 8));
  CHECK(again->timeout == r.ttl + r.lock_delay);
  CHECK(again->limit == 3U);
  CHECK(again->slot == 2U);
  CHECK(again->who.reason == "why not");
  CHECK_FALSE(again->run);
  record.run = NodeRecord::Run{{true, 15}, std::chrono::seconds{7}};
  const auto ended = NodeRecord::parse(record.text());
  REQUIRE(ended);
  REQUIRE(ended->run);
  CHECK(ended->run->end.text() == "s15");
  CHECK(ended->run->lasted == std::chrono::seconds{7});
  CHECK(ended->who.reason == "why not");
  r.mode = Mode::exclusive;
  CHECK_FALSE(NodeRecord::parse(NodeRecord::of(r).text())->limit);
}

TEST_CASE("foreign data is not a record") {
  for (const char* text : {"", "10.0.0.1", "__REVOKE__", "dlock1", "dlock1 ", "dlock1 12345678",
                           "dlock1 12345678 x - - ", "dlock2 12345678 1 - - "})
    CHECK_FALSE(NodeRecord::parse(text));
}

TEST_CASE("a ticket survives encoding, and other text is refused") {
  const Ticket t{-0x123456789abcdefLL, std::string("\0\x01secretpass\xff\x7f\x80z", 16),
                 std::chrono::seconds{40}, std::chrono::seconds{10}};
  REQUIRE(t.password.size() == 16);
  const auto again = Ticket::parse(t.text());
  REQUIRE(again);
  CHECK(again->id == t.id);
  CHECK(again->password == t.password);
  CHECK(again->timeout == t.timeout);
  CHECK(again->lock_delay == t.lock_delay);
  const std::string session = t.text().substr(0, 48);
  for (const char* times :
       {"", "-", "-40000", "-40000-", "-5-5", "-0-0", "-x-1", "40000-1", "-9-1-1"})
    CHECK_FALSE(Ticket::parse(session + times));
  for (const std::string& text : {std::string{}, t.text().substr(1), t.text() + "0",
                                  "x" + t.text().substr(1), "-" + t.text().substr(1)})
    CHECK_FALSE(Ticket::parse(text));
}
