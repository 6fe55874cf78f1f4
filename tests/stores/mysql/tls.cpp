// SPDX-License-Identifier: Apache-2.0
// TLS is enforced and verified; passwords and authentication plugins.
#include <cstdlib>
#include <filesystem>
#include "faults.hpp"
#include "support/certificates.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

Result<Progress> try_url(const std::string& url, const Settings& s = patient()) {
  return waiter(*open_mysql(url, s), request(key("k")))->poll(0us);
}

// Acquires and releases a lock over that URL.
bool works(const std::string& url, const Settings& s = patient()) {
  const auto b = open_mysql(url, s);
  auto p = waiter(*b, request(key("k")))->poll(0us);
  if (!p) UNSCOPED_INFO(p.error().message);
  if (!p || !std::holds_alternative<Granted>(*p)) return false;
  return b->release(std::get<Granted>(*p).lease).value() == Released::yes;
}

}  // namespace

TEST_CASE("TLS: an authority that this machine does not trust, unless it need not be verified") {
  TestDirectory dir;
  const Authority good{dir.path(), "good"};
  const auto right = good.issue("right", "DNS:localhost");
  MariadbServer own{{.config = {"ssl-cert=" + right.cert, "ssl-key=" + right.key}}};
  Database db{own};
  own.sql("CREATE USER secure@'%' REQUIRE SSL; GRANT ALL ON *.* TO secure@'%'");
  const auto url = fmt::format("mysql://secure@localhost:{}/{}", own.port(), db.name());
  Settings insecure = patient();
  insecure.tls_insecure = true;
  CHECK(works(url + "?tls=yes", insecure));
  for (const char* items : {"?tls=yes", ""}) {
    const auto p = try_url(url + items);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::denied);
  }
  insecure.password = "wrong";
  for (const std::string items : {"?tls=yes", ""}) {
    const auto p = try_url(url + items, items.empty() ? quick(2s) : insecure);
    REQUIRE_FALSE(p);
    CHECK((p.error().message.find("REQUIRE SSL") == std::string::npos) == !items.empty());
  }
}

TEST_CASE("passwords from each source, and a unix socket") {
  Database db{server()};
  server().sql(
      "CREATE OR REPLACE USER pass@'%' IDENTIFIED BY 'se cret\\'\"#'; GRANT ALL ON *.* TO "
      "pass@'%'");
  const std::string url = fmt::format("mysql://pass@127.0.0.1:{}/{}", server().port(), db.name());
  const auto p = try_url(url);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::denied);
  Settings s = patient();
  s.password = "se cret'\"#";
  CHECK(works(url, s));
  ::setenv("MYSQL_PWD", "se cret'\"#", 1);
  CHECK(works(url));
  CHECK(works(fmt::format("mysql+unix://pass@{}?db={}", server().socket(), db.name())));
  ::unsetenv("MYSQL_PWD");
}

TEST_CASE("ed25519, whose client half is a file in the plugin directory") {
  const std::string name = "/auth_ed25519.so";
  std::string dir = server().value("SELECT @@plugin_dir");
  while (dir.ends_with('/')) dir.pop_back();
  if (!std::filesystem::exists(dir + name)) {
    WARN("skipped: " << dir << name << " (package mariadb-server) is not installed");
    return;
  }
  Database db{server()};
  server().sql("INSTALL SONAME 'auth_ed25519'");
  server().sql(
      "CREATE OR REPLACE USER modern@'%' IDENTIFIED VIA ed25519 USING PASSWORD('secret'); GRANT "
      "ALL ON *.* TO modern@'%'");
  const std::string url =
      fmt::format("mysql://modern:secret@127.0.0.1:{}/{}", server().port(), db.name());
  // First, because a loaded plugin stays loaded.
  const auto missing = try_url(url + "?plugin_dir=/nonexistent");
  REQUIRE_FALSE(missing);
  INFO(missing.error().message);
  CHECK(missing.error().code == Errc::denied);
  CHECK(missing.error().message.find("client_ed25519.so") != std::string::npos);
  CHECK(missing.error().message.find("libmariadb3") != std::string::npos);
  CHECK(works(url));
  const auto wrong =
      try_url(fmt::format("mysql://modern:other@127.0.0.1:{}/{}", server().port(), db.name()));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == Errc::denied);
}
