// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include "etcd/client/client.hpp"
#include "etcd/factory.hpp"

using namespace dlock;
using namespace dlock::etcd;

namespace {
Result<Options> parse(const std::string& text, std::size_t recipe = 0) {
  return parse_options(Url::parse(text).value(), recipes[recipe], Settings{});
}
}  // namespace

TEST_CASE("etcd URLs") {
  const auto o = parse("etcd://me:pw@a,b:5,[::1]/app/?tls=yes&tls_ca=/ca").value();
  REQUIRE(o.endpoints.size() == 3);
  CHECK(o.endpoints[0].port == 2379);
  CHECK(o.endpoints[1].port == 5);
  CHECK(o.endpoints[2].host == "::1");
  CHECK(o.root == "/app/dlock/");
  CHECK(o.user == "me");
  CHECK(o.tls->ca == "/ca");
  CHECK(parse("etcd://a").value().root == "dlock/");
  CHECK(parse("etcd://a?prefix=x/").value().root == "x/");
  CHECK(parse("etcd://a", 1).value().root.empty());
  CHECK(parse("etcd://a/app", 1).value().root == "/app/");
  CHECK(parse("etcds://a").value().tls);
  for (const char* wrong :
       {"etcd:///p", "etcd://me@a", "etcds://a?tls=no", "etcd://a?tls=maybe", "etcd://a?tls_ca=/x"})
    CHECK(parse(wrong).error().code == Errc::usage);
}
