// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/options.hpp"
#include <catch2/catch.hpp>
#include <cstdlib>
#include "redis/factory.hpp"

using namespace dlock;
using namespace dlock::redis;

namespace {
Result<Options> parse(const std::string& url, const Settings& settings = {}) {
  return parse_options(Url::parse(url).value(), redis::factory.recipes.front(), settings);
}
std::string why_not(const std::string& url) {
  const auto r = parse(url);
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Errc::usage);
  return r.error().message;
}
}  // namespace

TEST_CASE("forms of a redis URL") {
  ::unsetenv("REDISCLI_AUTH");
  const auto plain = parse("redis://db1").value();
  CHECK(plain.servers.front() == Endpoint{"db1", 6379, ""});
  CHECK(plain.database == 0);
  CHECK(plain.prefix == "dlock:");
  CHECK(plain.restart_grace == std::chrono::seconds{30});
  CHECK_FALSE(plain.tls);
  const auto full =
      parse("rediss://app:se%40cret@[::1]:7000/3?prefix=&replicas=2&restart_grace=0&tls_ca=/ca.pem")
          .value();
  CHECK(full.servers.front() == Endpoint{"::1", 7000, ""});
  CHECK(full.servers.front().text() == "[::1]:7000");
  CHECK(full.user == "app");
  CHECK(full.password == "se@cret");
  CHECK(full.where.find("cret") == std::string::npos);
  CHECK(full.database == 3);
  CHECK(full.prefix.empty());
  CHECK(full.replicas == 2);
  CHECK(full.restart_grace == Duration{0});
  REQUIRE(full.tls);
  CHECK(full.tls->ca == "/ca.pem");
  const auto socket = parse("redis+unix:///run/redis.sock?db=2").value();
  CHECK(socket.servers.front().socket == "/run/redis.sock");
  CHECK(socket.database == 2);
  CHECK(parse("redis://h?tls=yes").value().tls);
  CHECK(parse("rediss://h?tls_name=db7.example").value().tls->name == "db7.example");
  CHECK(parse("rediss://h").value().tls->name_of("h") == "h");
  using Verify = TlsOptions::Verify;
  CHECK(parse("rediss://h").value().tls->verify == Verify::name);
  CHECK(parse("redis://h?tls=verify-ca&tls_ca=/ca.pem").value().tls->verify == Verify::chain);
}

TEST_CASE("URLs of sentinels and clusters") {
  const auto sentinel = parse("redis+sentinel://s1,s2:5000,[::1]/main/4?tls=yes").value();
  CHECK(sentinel.topology == Options::Topology::sentinel);
  CHECK(sentinel.servers ==
        std::vector<Endpoint>{{"s1", 26379, ""}, {"s2", 5000, ""}, {"::1", 26379, ""}});
  CHECK(sentinel.master == "main");
  CHECK(sentinel.database == 4);
  CHECK(sentinel.tls);
  const auto cluster = parse("redis+cluster://a,b:7001").value();
  CHECK(cluster.topology == Options::Topology::cluster);
  CHECK(cluster.servers == std::vector<Endpoint>{{"a", 6379, ""}, {"b", 7001, ""}});
  CHECK(why_not("redis+sentinel://s1,s2").find("behind the sentinels") != std::string::npos);
  CHECK(why_not("redis+sentinel:///main").find("host is missing; allowed is the sentinels") !=
        std::string::npos);
  CHECK(why_not("redis://").find("host is missing; allowed is one") != std::string::npos);
  CHECK(why_not("redis://a,b").find("host is '2 hosts'; allowed is one") != std::string::npos);
  CHECK(why_not("redis+sentinel://s1/main/x").find("database is 'x'") != std::string::npos);
  CHECK(why_not("redis+cluster://a/1").find("no databases") != std::string::npos);
}

TEST_CASE("settings override the URL, the URL overrides the environment") {
  ::setenv("REDISCLI_AUTH", "from-environment", 1);
  Settings settings;
  CHECK(parse("redis://h").value().password == "from-environment");
  CHECK(parse("redis://:in-url@h").value().password == "in-url");
  settings.password = "set";
  settings.tls_ca = "/set.pem";
  settings.tls_name = "set.example";
  CHECK(parse("redis://:in-url@h", settings).value().password == "set");
  CHECK(parse("rediss://h?tls_ca=/url.pem", settings).value().tls->ca == "/set.pem");
  CHECK(parse("rediss://h?tls_name=url.example", settings).value().tls->name == "set.example");
  ::unsetenv("REDISCLI_AUTH");
}

TEST_CASE("an error names the item, its value and what is allowed") {
  ::unsetenv("REDISCLI_AUTH");
  CHECK(why_not("redis://a,b").find("2 hosts") != std::string::npos);
  CHECK(why_not("redis://a/x").find("database is 'x'; allowed is a number") != std::string::npos);
  CHECK(why_not("redis://a?db=1").find("redis+unix only") != std::string::npos);
  CHECK(why_not("redis+unix://host/x").find("three slashes") != std::string::npos);
  CHECK(why_not("redis+unix:///s?tls=yes").find("unix socket") != std::string::npos);
  CHECK(why_not("redis://a?tls=maybe").find("yes, no or verify-ca") != std::string::npos);
  CHECK(why_not("redis://a?tls=verify-ca").find("beside --tls-ca") != std::string::npos);
  CHECK(why_not("redis://a?tls_name=b").find("without TLS") != std::string::npos);
  CHECK(why_not("rediss://a?tls_name=b%20c").find("the name of a host") != std::string::npos);
  CHECK(why_not("rediss://a?tls=no").find("rediss") != std::string::npos);
  CHECK(why_not("redis://a?tls_ca=/x").find("without TLS") != std::string::npos);
  CHECK(why_not("redis://a?replicas=-1").find("replicas is '-1'") != std::string::npos);
  CHECK(why_not("redis://a?restart_grace=5 m").find("restart_grace") != std::string::npos);
  CHECK(why_not("redis://a?prefix=x%7By%7D").find("braces") != std::string::npos);
  CHECK(why_not("redis://app@a").find("user with a password") != std::string::npos);
}

TEST_CASE("certificates are read when the backend is opened") {
  Settings settings;
  const auto open = [&](const std::string& url) {
    return redis::factory.open(Url::parse(url).value(), redis::factory.recipes.front(), settings);
  };
  CHECK(open("rediss://h"));
  const auto missing = open("rediss://h?tls_ca=/nowhere/ca.pem");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == Errc::config);
  CHECK(missing.error().message.find("/nowhere/ca.pem") != std::string::npos);
  settings.tls_cert = "/nowhere/cert.pem";
  const auto half = open("rediss://h");
  REQUIRE_FALSE(half);
  CHECK(half.error().message.find("go together") != std::string::npos);
}
