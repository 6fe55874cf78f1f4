// SPDX-License-Identifier: Apache-2.0
#include "core/identity.hpp"
#include <unistd.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include "core/clock.hpp"
#include "core/text.hpp"
#include "pure/random.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("the identity of this process") {
  char host[256] = {};
  REQUIRE(::gethostname(host, sizeof host - 1) == 0);
  const std::int64_t before = wall_micros();
  const Identity me = Identity::mine("why & how=100%\n");
  CHECK(me.host == host);
  CHECK(me.user == std::to_string(::getuid()));
  CHECK(me.pid == ::getpid());
  CHECK(me.since >= before);
  CHECK(me.since <= wall_micros());
  CHECK(me.reason == "why & how=100%\n");
  CHECK(me.command.empty());
}

TEST_CASE("the encoded form of an identity") {
  Identity who{.host = "db3",
               .user = "0",
               .pid = 41223,
               .since = 1'700'000'000'000'000,
               .reason = "a b&c=d",
               .command = "",
               .limit = 0};
  CHECK(who.encode() == "host=db3&pid=41223&user=0&since=1700000000000000&reason=a%20b%26c%3Dd");
  who.command = "tar -c /";
  CHECK(who.encode().ends_with("&command=tar%20-c%20%2F"));
  who.limit = 3;
  CHECK(who.encode().ends_with("&limit=3"));
  CHECK(Identity{}.encode().empty());
  Identity user;
  user.user = "7";
  CHECK(user.encode() == "user=7");
}

TEST_CASE("which process it is, and who keeps the lock: optional items") {
  Identity who;
  who.pid = 7;
  who.process = Identity::Process{4711, 4026531836};
  who.kept_by = Identity::KeptBy::keeper;
  CHECK(who.encode() == "pid=7&proc=4711.4026531836&kept=keeper");
  for (const auto kept : {Identity::KeptBy::process, Identity::KeptBy::nobody}) {
    who.kept_by = kept;
    const Identity read = Identity::decode(who.encode());
    CHECK(read.process == who.process);
    CHECK(read.kept_by == kept);
  }
  for (const std::string bad : {"", "4711", "4711.", ".4026531836", "a.b", "1.2.3", "-1.2"})
    CHECK_FALSE(Identity::decode("pid=7&proc=" + bad).process);
  const Identity old = Identity::decode("host=db3&pid=7&kept=by%20another");
  CHECK_FALSE(old.process);
  CHECK(old.kept_by == Identity::KeptBy::process);
}

TEST_CASE("the end of the program, and what it left") {
  Identity who;
  who.pid = 7;
  who.ended = ProgramEnded{1'700'000'000'000'000, {false, 3}, {{1216, "sshd"}, {12, "a, b.c"}}};
  CHECK(who.encode() == "pid=7&ended=1700000000000000.3&left=1216.sshd%2012.a%252C%2520b.c");
  const auto read = Identity::decode(who.encode()).ended;
  REQUIRE(read);
  CHECK(read->at == who.ended->at);
  CHECK(read->end.value == 3);
  CHECK(read->left_text() == "sshd[1216], a, b.c[12]");
  who.ended = ProgramEnded{1, {true, 15}, {}};
  CHECK(who.encode() == "pid=7&ended=1.s15");
  CHECK(Identity::decode(who.encode()).ended->end.by_signal);
  for (const std::string bad : {"", "0.3", "x.3", "1", "1.", "1.x", "1.300", "-1.3"})
    CHECK_FALSE(Identity::decode("pid=7&ended=" + bad + "&left=1.a").ended);
  for (const std::string bad : {"", "a", "0.a", "-1.a", "1.%2"})
    CHECK(Identity::decode("ended=1.0&left=" + percent_encode(bad)).ended->left.empty());
}

TEST_CASE("unreadable fields of an identity stay empty") {
  const Identity some = Identity::decode(
      "host=a%2&pid=12x&&=&user&since=-5&reason=%41&reason&unknown=1&command=x=y&limit=-2");
  CHECK(some.host.empty());
  CHECK(some.user.empty());
  CHECK(some.pid == 0);
  CHECK(some.since == 0);
  CHECK(some.reason == "A");
  CHECK(some.command == "x=y");
  CHECK(some.limit == 0);
  for (const std::string pid :
       {"", "-1", "0", "+1", " 1", "1 ", "0x1", "9223372036854775808", "1e3"}) {
    CAPTURE(pid);
    CHECK(Identity::decode("pid=" + pid).pid == 0);
  }
  CHECK(Identity::decode("pid=9223372036854775807").pid == INT64_MAX);
  CHECK(Identity::decode("").encode().empty());
}

TEST_CASE("every identity survives encoding, and any text decodes") {
  Random random{seed()};
  for (int i = 0; i < 10'000; ++i) {
    const Identity who{.host = random.bytes(20),
                       .user = random.bytes(9),
                       .pid = static_cast<std::int64_t>(random.any() >> (1 + random.below(63))),
                       .since = static_cast<std::int64_t>(random.any() >> 1),
                       .reason = random.bytes(60),
                       .command = random.bytes(60),
                       .limit = static_cast<unsigned>(random.below(1U << 31U))};
    const std::string text = who.encode();
    if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; }))
      FAIL("not printable: " << text);
    const Identity back = Identity::decode(text);
    if (back.host != who.host || back.user != who.user || back.pid != who.pid ||
        back.since != who.since || back.reason != who.reason || back.command != who.command)
      FAIL("lost: " << text);
    const std::string broken = random.one_in(3) ? random.bytes(100) : random.damaged(text);
    const Identity read = Identity::decode(broken);
    if (read.pid < 0 || read.since < 0 || read.reason.size() > broken.size())
      FAIL("bad: " << broken);
    if (Identity::decode(read.encode()).encode() != read.encode())
      FAIL("not stable: " << read.encode());
  }
}
