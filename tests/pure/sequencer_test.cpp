// SPDX-License-Identifier: Apache-2.0
#include "core/sequencer.hpp"
#include <catch2/catch.hpp>
#include "core/text.hpp"
#include "pure/message.hpp"
#include "pure/random.hpp"

using namespace dlock;
using namespace dlock::test;
using Catch::Contains;

namespace {

const std::string hex = "00112233445566778899aabbccddeeff";

}  // namespace

TEST_CASE("a sequencer has the documented form and survives parsing") {
  const Sequencer s{"file", "lease", Key::parse("nightly/db: 1").value(), Mode::exclusive, 17};
  CHECK(s.text() == "v1:file.lease:nightly%2Fdb%3A%201:X:17");
  const auto back = Sequencer::parse(s.text());
  REQUIRE(back);
  CHECK(back->family == "file");
  CHECK(back->recipe == "lease");
  CHECK(back->key == s.key);
  CHECK(back->mode == Mode::exclusive);
  CHECK(back->token == 17);
  CHECK(Sequencer::parse("v1:redis.setnx-expire:a:S:1")->mode == Mode::shared);
  CHECK(Sequencer::parse("v1:redis.fair:.:P:18446744073709551615")->token == UINT64_MAX);
}

TEST_CASE("malformed sequencers are refused") {
  const auto refused = [](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      CAPTURE(text);
      const auto r = Sequencer::parse(text);
      REQUIRE_FALSE(r);
      CHECK(is_good_message(r.error()));
      CHECK_THAT(r.error().message,
                 Contains(dlock::quoted(text)) && Contains("v1:FAMILY.RECIPE:KEY:X|S|P:TOKEN"));
    }
  };
  refused({"", "v1", "v1:", "v1::::", "v2:file.lease:a:X:1", "V1:file.lease:a:X:1",
           " v1:file.lease:a:X:1", "v1:file.lease:a:X", "v1:file.lease:a:X:",
           "v1:file.lease:a:X:1:", "v1:file.lease:a:X:1:2", "v1:file.lease:a:X:1\n"});
  // family, recipe and key, which must be as dlock encodes them
  refused({"v1:file:a:X:1", "v1:.lease:a:X:1", "v1:file.:a:X:1", "v1:file.a.b:a:X:1",
           "v1:File.lease:a:X:1", "v1:file.le ase:a:X:1", "v1:file.lease::X:1",
           "v1:file.lease:a/b:X:1", "v1:file.lease:%61:X:1", "v1:file.lease:a%2:X:1",
           "v1:file.lease:a%0Ab:X:1", "v1:file.lease:%FF:X:1", "v1:file.lease:a%2fb:X:1"});
  // mode and token
  refused({"v1:file.lease:a:x:1", "v1:file.lease:a::1", "v1:file.lease:a:XX:1",
           "v1:file.lease:a:E:1", "v1:file.lease:a:X:0", "v1:file.lease:a:X:01",
           "v1:file.lease:a:X:-1", "v1:file.lease:a:X:18446744073709551616"});
  refused({"v1:file.lease:" + std::string(201, 'a') + ":X:1", "h1:file.lease:" + hex});
}

TEST_CASE("a handle survives parsing, with its recipe's data") {
  const Handle plain{"redis", "fair", Owner::parse(hex).value(), ""};
  CHECK(plain.text() == "h1:redis.fair:" + hex);
  CHECK(Handle::parse(plain.text())->owner == plain.owner);
  CHECK(Handle::parse(plain.text())->extra.empty());
  const Handle more{"mysql", "get-lock", Owner::parse(hex).value(), "/run/user/1000/dlock: a%b"};
  CHECK(more.text() == "h1:mysql.get-lock:" + hex + ":%2Frun%2Fuser%2F1000%2Fdlock%3A%20a%25b");
  const auto back = Handle::parse(more.text());
  REQUIRE(back);
  CHECK(back->family == "mysql");
  CHECK(back->recipe == "get-lock");
  CHECK(back->extra == more.extra);
}

TEST_CASE("one handle covers several keys, one of which may have another owner") {
  const auto lease = [](const char* key, const char* owner, const char* ticket = "") {
    return Lease{
        .key = Key::parse(key).value(), .owner = Owner::parse(owner).value(), .ticket = ticket};
  };
  const std::string other = "ffeeddccbbaa99887766554433221100";
  CHECK(Handle::of("redis", "fair", {lease("b", hex.c_str()), lease("a", hex.c_str())}).text() ==
        "h1:redis.fair:" + hex);
  CHECK(Handle::of("zookeeper", "sequential",
                   {lease("b", hex.c_str(), "t:1"), lease("a", hex.c_str(), "t:1")})
            .text() == "h1:zookeeper.sequential:" + hex + ":t%3A1");

  const Handle some =
      Handle::of("redlock", "redlock",
                 {lease("b", hex.c_str()), lease("a=:", other.c_str()), lease("c", hex.c_str())});
  CHECK(some.text() == "h1:redlock.redlock:" + hex + "::a%3D%3A=" + other);
  const auto back = Handle::parse(some.text());
  REQUIRE(back);
  CHECK(back->text() == some.text());
  CHECK(back->lease(Key::parse("b").value()).owner.hex() == hex);
  CHECK(back->lease(Key::parse("c").value()).owner.hex() == hex);
  CHECK(back->lease(Key::parse("a=:").value()).owner.hex() == other);

  const Handle tickets = Handle::of(
      "zookeeper", "sequential", {lease("b", hex.c_str(), "t1"), lease("a", other.c_str(), "t=2")});
  CHECK(tickets.text() == "h1:zookeeper.sequential:" + hex + ":t1:a=" + other + "=t%3D2");
  const auto read = Handle::parse(tickets.text());
  REQUIRE(read);
  CHECK(read->lease(Key::parse("a").value()).ticket == "t=2");
  CHECK(read->lease(Key::parse("b").value()).ticket == "t1");

  for (const std::string& tail :
       std::vector<std::string>{"::", "::a", "::a=", "::a=0", "::a=" + other + "=", "::=" + other,
                                "::a%3d=" + other, "::a b=" + other})
    CHECK_FALSE(Handle::parse("h1:redlock.redlock:" + hex + tail));
}

TEST_CASE("malformed handles are refused, and the message never repeats them") {
  for (const std::string& text : std::vector<std::string>{
           "", "h1", "h2:redis.fair:" + hex, hex, "h1:redis.fair",
           "h1:redis.fair:", "h1:redis:" + hex, "h1:redis.fair:" + hex + "0",
           "h1:redis.fair:" + hex + ":", "h1:redis.fair:" + hex + ":a:b",
           "h1:redis.fair:" + hex + ":a%2", "h1:redis.fair:" + hex + ":a%2fb",
           "h1:redis.fair:" + hex + ":a b", "h1:redis.fair:00112233445566778899AABBCCDDEEFF",
           "h1:redis.fair:" + hex + "\n", "v1:file.lease:a:X:1:" + hex}) {
    CAPTURE(text);
    const auto r = Handle::parse(text);
    REQUIRE_FALSE(r);
    CHECK(is_good_message(r.error()));
    CHECK_THAT(r.error().message,
               Contains("--handle") && !Contains("0011") && !Contains("AABB") && !Contains("a:b"));
  }
}

TEST_CASE("fencing tokens are 1 to 2^64-1 in decimal") {
  CHECK(parse_token("1").value() == 1);
  CHECK(parse_token("18446744073709551615").value() == UINT64_MAX);
  for (const std::string& bad :
       {std::string{}, std::string{"0"}, std::string{"00"}, std::string{"01"}, std::string{"-1"},
        std::string{"+1"}, std::string{" 1"}, std::string{"1 "}, std::string{"1.0"},
        std::string{"0x1"}, std::string{"1e3"}, std::string{"18446744073709551616"},
        std::string("1\0", 2), std::string(100'000, '9')}) {
    CAPTURE(printable(bad.substr(0, 30)));
    REQUIRE_FALSE(parse_token(bad));
    CHECK(is_good_message(parse_token(bad).error()));
    CHECK_THAT(parse_token(bad).error().message,
               Contains(dlock::quoted(bad)) && Contains("from 1 to 18446744073709551615"));
  }
}

TEST_CASE("random text is a sequencer or a handle only in its canonical form") {
  Random random{seed()};
  std::size_t good = 0;
  for (int i = 0; i < 30'000; ++i) {
    const std::string text =
        random.one_in(4) ? random.bytes(80) : random.damaged("v1:file.lease:nightly%2Fdb:X:17");
    const auto s = Sequencer::parse(text);
    if (s ? s->text() != text : !is_good_message(s.error())) FAIL(printable(text));
    const std::string secret =
        random.one_in(4) ? random.bytes(80)
                         : random.damaged("h1:redis.fair:" + hex + ":%2Frun:a%20b=" + hex);
    const auto handle = Handle::parse(secret);
    if (handle ? handle->text() != secret : !is_good_message(handle.error()))
      FAIL(printable(secret));
    if (!handle && handle.error().message.find("33445566") != std::string::npos)
      FAIL("the secret is in " << handle.error().message);
    good += s.has_value() + handle.has_value();
  }
  CHECK(good > 100);
}
