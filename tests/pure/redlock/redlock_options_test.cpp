// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include "redlock/factory.hpp"
#include "redlock/redlock_backend.hpp"

using namespace dlock;
using namespace std::chrono_literals;

namespace {
Result<redlock::Options> parse(const std::string& url) {
  return redlock::parse_options(Url::parse(url).value(), redlock::recipes.front(), {});
}
std::string why_not(const std::string& url) {
  const auto r = parse(url);
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Errc::usage);
  return r.error().message;
}
}  // namespace

TEST_CASE("forms of a redlock URL") {
  const auto five = parse("redlock://a,b:7000,c,d,e/2?tls=yes&restart_grace=2m").value();
  REQUIRE(five.servers.size() == 5);
  CHECK(five.servers[1] == Endpoint{"b", 7000, ""});
  CHECK(five.servers[2].port == 6379);
  CHECK(five.database == 2);
  CHECK(five.tls);
  CHECK(five.prefix.empty());
  CHECK(five.restart_grace == 2min);
  CHECK(parse("redlock://a"));  // a majority of one is one
  CHECK(parse("redlock://a,b?allow_even=yes").value().servers.size() == 2);
}

TEST_CASE("redlock URLs that are refused") {
  CHECK(why_not("redlock://a,b,c,d").find("odd number") != std::string::npos);
  CHECK(why_not("redlock://a,b?allow_even=no").find("odd number") != std::string::npos);
  CHECK(why_not("redlock://a,b?allow_even=maybe").find("allow_even") != std::string::npos);
  CHECK(why_not("redlock://a,b,a:6379").find("each master once") != std::string::npos);
  CHECK(why_not("redlock://a,b,c/x").find("database") != std::string::npos);
}

TEST_CASE("the time that a master has to answer") {
  CHECK(redlock::node_patience(30s) == 200ms);
  CHECK(redlock::node_patience(2s) == 100ms);
  CHECK(redlock::node_patience(100ms) == 10ms);
}

TEST_CASE("the record beside a lock") {
  const redlock::Names names{"jobs:nightly"};
  CHECK(names.lock == "jobs:nightly");
  CHECK(redlock::Names::lock_of(names.record) == "jobs:nightly");
  CHECK_FALSE(redlock::Names::lock_of(names.lock));
  CHECK_FALSE(redlock::Names::lock_of(names.wake));
}
