// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include "redlock/factory.hpp"
#include "redlock/record.hpp"

using namespace dlock;

namespace {
redlock::Options options(const std::string& url) {
  return redlock::parse_options(Url::parse(url).value(), redlock::recipes.front(), {}).value();
}
std::string text(const std::string& url) { return redlock::list_text(options(url)); }
}  // namespace

TEST_CASE("the same masters give the same list, in any order") {
  CHECK(text("redlock://b,a:7000,c") == "a:7000,b:6379,c:6379/0");
  CHECK(text("redlock://c:6379,b,a:7000/0") == text("redlock://b,a:7000,c"));
  CHECK(text("redlock://DB1,db2,db3") == text("redlock://db3,db2,db1"));
  CHECK(text("redlock://b,a:7000,c/2") != text("redlock://b,a:7000,c"));
  CHECK(text("redlock://b,a,c") != text("redlock://b,a:7000,c"));
  CHECK(text("redlock://[::1],127.0.0.1,localhost") ==
        "127.0.0.1:6379,[::1]:6379,localhost:6379/0");
}

TEST_CASE("a list stored at a master names its masters") {
  const auto known = redlock::KnownList::parse("?a:7000,b:6379,[::1]:6379/2");
  CHECK(known.marked);
  CHECK(known.text == "a:7000,b:6379,[::1]:6379/2");
  CHECK(known.masters() == std::vector<std::string>{"a:7000", "b:6379", "[::1]:6379"});
  const auto five = options("redlock://e,d,c,b,a/3");
  const auto again = redlock::KnownList::parse(redlock::list_text(five));
  CHECK_FALSE(again.marked);
  auto names = redlock::master_names(five);
  CHECK(names.front() == "e:6379");
  std::sort(names.begin(), names.end());
  CHECK(again.masters() == names);
}

TEST_CASE("list_change is yes or no") {
  CHECK(options("redlock://a,b,c?list_change=yes").list_change);
  CHECK_FALSE(options("redlock://a,b,c?list_change=no").list_change);
  CHECK_FALSE(options("redlock://a,b,c").list_change);
  CHECK_FALSE(redlock::parse_options(Url::parse("redlock://a,b,c?list_change=maybe").value(),
                                     redlock::recipes.front(), {}));
}
