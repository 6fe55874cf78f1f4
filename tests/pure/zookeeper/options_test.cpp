// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/options.hpp"
#include <fmt/format.h>
#include <sys/stat.h>
#include <catch2/catch.hpp>
#include <cstdio>
#include "support/temp_dir.hpp"
#include "zookeeper/factory.hpp"

using namespace dlock;
using namespace dlock::zookeeper;

namespace {

const Traits& native = recipes[0];
const Traits& curator = recipes[1];

Result<Options> parse(const std::string& url, const Traits& traits = native,
                      const Settings& settings = {}) {
  return parse_options(Url::parse(url).value(), traits, settings);
}
std::string why(const Result<Options>& r) { return r ? "" : r.error().message; }

}  // namespace

TEST_CASE("servers, chroot and prefix") {
  const Options several = parse("zookeeper://a,b:99,c").value();
  std::string servers;
  for (const Url::Host& host : several.servers)
    servers += fmt::format(" {}:{}", host.name, host.port.value());
  CHECK(servers == " a:2181 b:99 c:2181");
  CHECK(parse("zk://a").value().root == "/dlock/");
  CHECK(parse("zk://a/app").value().root == "/app/dlock/");
  CHECK(parse("zk://a/app/?prefix=").value().root == "/app/");
  CHECK(parse("zk://a", curator).value().root == "/");
  CHECK(parse("zk://a/x?prefix=locks/", curator).value().root == "/x/locks/");
  CHECK(why(parse("zk://a?prefix=a//b/")).find("prefix") != std::string::npos);
  CHECK(why(parse("zk://a/..")).find("'..'") != std::string::npos);
  CHECK_FALSE(parse("zk://a/zookeeper"));
}

TEST_CASE("keys become paths, or are refused") {
  const auto path = [](const std::string& key, const Traits& traits) {
    return path_of(parse("zk://a", traits).value(), Key::parse(key).value());
  };
  CHECK(path("a/b", native).value() == "/dlock/a%2Fb");
  CHECK(path("a/b", curator).value() == "/a/b");
  CHECK(path("käse", curator).value() == "/käse");
  for (const char* key :
       {"/", "//", "/a", "a/", "a//b", ".", "..", "a/./b", "zookeeper", "zookeeper/quota", "🔒"}) {
    const auto r = path(key, curator);
    CAPTURE(key);
    REQUIRE_FALSE(r);
    CHECK(r.error().code == Errc::usage);
    CHECK(path(key, native).has_value());
  }
  CHECK_FALSE(path_of(parse("zk://a", recipes[3]).value(), Key::parse("a/b").value()));
}

TEST_CASE("items that the client library cannot serve are refused, not ignored") {
  CHECK(why(parse("zk://a?tls=yes")).find("TLS") != std::string::npos);
  Settings settings;
  settings.tls_ca = "/ca.pem";
  CHECK(parse("zk://a", native, settings).error().code == Errc::usage);
  CHECK_FALSE(parse("zk://a?tick=0"));
  CHECK_FALSE(parse("zk://a?tick=x"));
  CHECK(parse("zk://a?tick=2s").value().tick == std::chrono::seconds{2});
}

TEST_CASE("credentials are read from a file that only its owner may read") {
  const test::TempDir dir;
  const std::string file = dir / "auth", url = "zk://a?auth_file=" + file;
  const auto write = [&](const char* text, mode_t mode) {
    std::FILE* f = std::fopen(file.c_str(), "we");
    std::fputs(text, f);
    std::fclose(f);
    ::chmod(file.c_str(), mode);
  };
  CHECK(parse(url).error().code == Errc::config);
  write("digest:user:pass\nmore\n", 0600);
  CHECK(parse(url).value().auth == "digest:user:pass");
  for (const mode_t mode : {0640, 0604, 0620}) {
    write("digest:user:pass\n", mode);
    CHECK(parse(url).error().code == Errc::config);
  }
  for (const char* text : {"", "digest", "digest:", ":hunter2"}) {
    write(text, 0600);
    CHECK(parse(url).error().code == Errc::config);
    CHECK(why(parse(url)).find("hunter2") == std::string::npos);
  }
  Settings settings;
  settings.password = "secret";
  CHECK(parse("zk://user@a", native, settings).value().auth == "digest:user:secret");
  CHECK_FALSE(parse("zk://user@a"));
}

TEST_CASE("a login without TLS to another host gives a warning") {
  const auto warns = [](const char* url) {
    return !access(Url::parse(url).value()).in_clear.empty();
  };
  CHECK(warns("zk://db1"));
  CHECK(warns("zk://localhost,db1"));
  CHECK_FALSE(warns("zk://me@localhost,127.0.0.1:99,[::1]"));
}

TEST_CASE("the proven part of a ttl, with ?tick= and without") {
  const auto proves = [](const char* url) {
    return native.proven_of(std::chrono::seconds{4}, Duration{}, Url::parse(url).value());
  };
  // 3/4 of 4 s less 9/32 of it and 42 ms
  CHECK(proves("zk://a") == std::chrono::microseconds{2'124'750});
  // 3/4 of 4 s less 9/16 of 500 ms and 42 ms
  CHECK(proves("zk://a?tick=500ms") == std::chrono::microseconds{2'757'562});
  // 3/4 of 4 s less 9/32 of 6 s and 62 ms
  const auto url = Url::parse("zk://a").value();
  CHECK(native.proven_of(std::chrono::seconds{4}, std::chrono::seconds{2}, url) ==
        std::chrono::microseconds{1'687'875});
  // which open() refuses
  CHECK(proves("zk://a?tick=nonsense") == proves("zk://a"));
  // no --ttl of 4 s there
  CHECK(proves("zk://a?tick=10s") == Duration{});
}
