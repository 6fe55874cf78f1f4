// SPDX-License-Identifier: Apache-2.0
// Passwords, TLS and what a URL may say.
#include <sys/stat.h>
#include <cstdio>
#include <cstdlib>
#include "faults.hpp"
#include "support/certificates.hpp"
#include "support/secret_file.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

Result<Progress> try_url(const std::string& url, const Settings& s = patient()) {
  return waiter(*open_postgres(url, s), request(key("k")))->poll(0us);
}

// Acquires and releases a lock over that URL.
bool works(const std::string& url, const Settings& s = patient()) {
  const auto b = open_postgres(url, s);
  auto p = waiter(*b, request(key("k")))->poll(0us);
  if (!p) UNSCOPED_INFO(p.error().message);
  if (!p || !std::holds_alternative<Granted>(*p)) return false;
  return b->release(std::get<Granted>(*p).lease).value() == Released::yes;
}

bool denied(const std::string& url, const Settings& s = patient()) {
  const auto p = try_url(url, s);
  if (!p) UNSCOPED_INFO(p.error().message);
  return !p && p.error().code == Errc::denied &&
         p.error().message.find("hunter2") == std::string::npos;
}

std::string wrong(const std::string& url, const Settings& s = {}) {
  const auto parsed = Url::parse(url);
  REQUIRE(parsed);
  const auto r = postgresql::prepare(*parsed, postgresql::recipes[0], s);
  return r ? "" : r.error().code == Errc::usage ? r.error().message : "another error";
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("SCRAM: the right password, from each source, and a wrong one") {
  PostgresServer own{{.hba = {"host all all 127.0.0.1/32 scram-sha-256"}}};
  own.sql("CREATE ROLE app LOGIN SUPERUSER PASSWORD 'hunter2'");
  const auto url = [&](std::string_view user) {
    return fmt::format("postgresql://{}@127.0.0.1:{}/postgres", user, own.port());
  };
  CHECK(works(url("app:hunter2")));
  const auto bare = fmt::format("127.0.0.1:{}/postgres?password=hunter2", own.port());
  CHECK(works("postgresql://app@" + bare));
  CHECK(works("postgresql://" + bare + "&user=app"));
  CHECK(works("postgresql://app:hunter2@" + bare + "&user=app"));
  Settings s = patient();
  s.password = "hunter2";
  CHECK(works(url("app"), s));
  CHECK(denied(url("app:hunter22")));
  CHECK(denied(url("app")));
  ::setenv("PGPASSWORD", "hunter2", 1);
  CHECK(works(url("app")));
  ::unsetenv("PGPASSWORD");
  TestDirectory dir;
  const std::string pass = dir.path() + "/pgpass";
  std::FILE* f = std::fopen(pass.c_str(), "we");
  std::fputs("127.0.0.1:*:postgres:app:hunter2\n", f);
  std::fclose(f);
  ::chmod(pass.c_str(), 0600);
  CHECK(works(url("app") + "?passfile=" + pass));
  const auto p = try_url(fmt::format("postgresql://app:hunter2@127.0.0.1:{}/none", own.port()));
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::cannot_create);
  CHECK(works(own.url_on_socket()));
}

TEST_CASE("services: what the URL does not say, from each place; an sslmode that does not verify") {
  PostgresServer own{{.hba = {"host all all 127.0.0.1/32 scram-sha-256"}}};
  own.sql("CREATE ROLE app LOGIN SUPERUSER PASSWORD 'hunter2'");
  const auto url = fmt::format("postgresql://127.0.0.1:{}/postgres", own.port());
  TestDirectory dir;
  const std::string file = dir.path() + "/.pg_service.conf", other = dir.path() + "/other";
  const auto write = [](const std::string& path, const std::string& text) {
    std::FILE* f = std::fopen(path.c_str(), "we");
    std::fputs(text.c_str(), f);
    std::fclose(f);
  };
  const std::string group = "# mine\n[none]\nsslmode=disable\n[mine]\nuser=app\npassword=hunter2\n";
  write(file, group);
  write(other, group + "host=192.0.2.1\nport=1\ndbname=none\n");  // the URL's count
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "/";
  ::setenv("HOME", dir.path().c_str(), 1);
  CHECK(works(url + "?service=mine"));
  CHECK_FALSE(works(url + "?service=missing"));
  ::setenv("PGSERVICE", "mine", 1);
  CHECK(works(url));
  ::setenv("PGSERVICEFILE", other.c_str(), 1);
  CHECK(works(url));
  // TLS files beside an sslmode of the service
  Settings tls;
  tls.tls_ca = "/nowhere.pem";
  const std::string to = "postgresql://h/d";
  CHECK(wrong(to, tls).empty());
  for (const char* mode : {"disable", "allow", "prefer", "require"}) {
    write(other, group + " sslmode=" + mode + " \n[next]\nsslmode=verify-full\n");
    CHECK(has(wrong(to, tls), "sslmode of service mine is '" + std::string{mode} +
                                  "'; allowed is verify-ca or verify-full"));
    CHECK(wrong(to + "?sslmode=verify-full", tls).empty());  // the URL counts
    CHECK(wrong(to).empty());
  }
  write(other, group + "[next]\nsslmode=disable\n");
  CHECK(wrong(to, tls).empty());
  CHECK(has(wrong(to + "?service=next", tls), "sslmode of service next"));
  write(other, group + "sslmode=verify-ca\n");
  CHECK(wrong(to, tls).empty());
  ::unsetenv("PGSERVICEFILE");
  write(file, group + "sslmode=prefer\n");
  CHECK(has(wrong(to, tls), "sslmode of service mine"));
  write(file, "[other]\nuser=app\n");
  write(dir.path() + "/pg_service.conf", group + "sslmode=require\n");
  ::setenv("PGSYSCONFDIR", dir.path().c_str(), 1);
  CHECK(has(wrong(to, tls), "sslmode of service mine"));
  CHECK(works(url + "?sslmode=disable"));
  ::unsetenv("PGSYSCONFDIR");
  ::unsetenv("PGSERVICE");
  ::setenv("HOME", home.c_str(), 1);
}

TEST_CASE("a password file that has changed is read again") {
  PostgresServer own{{.hba = {"host all all 127.0.0.1/32 scram-sha-256"}}};
  own.sql("CREATE ROLE app LOGIN SUPERUSER PASSWORD 'first'");
  const SecretFile file{"first"};
  Settings s = patient();
  s.password = "first";
  s.password_file = file.path();
  const auto b =
      open_postgres(fmt::format("postgresql://app@127.0.0.1:{}/postgres", own.port()), s);
  const Lease lease = acquire_or_fail(*b, request(key("k"), 60s));
  own.sql("ALTER ROLE app PASSWORD 'second'");
  file.write("second");
  own.sql("SELECT pg_terminate_backend(pid,60000) FROM pg_stat_activity WHERE usename='app'");
  CHECK(kept(b->renew(lease, 60s)));
}

TEST_CASE("TLS: a connection that is cut in the handshake is tried again, on the next host first") {
  TestDirectory dir;
  const Authority authority{dir.path(), "good"};
  const auto files = authority.issue("right", "DNS:localhost,IP:127.0.0.1");
  ::chmod(dir.path().c_str(), 0755);
  ::chmod(files.cert.c_str(), 0644);
  ::chmod(files.key.c_str(), 0600);
  PostgresServer::give(files.key);
  PostgresServer own{{.config = {"ssl=on", "ssl_cert_file='" + files.cert + "'",
                                 "ssl_key_file='" + files.key + "'"},
                      .hba = {"hostssl all all all trust"}}};
  Settings s = patient();
  s.tls_ca = authority.file();
  Proxy proxy{own.port()};
  // the request for TLS, and the first message of its handshake
  for (const std::string_view lost : {"\x04\xd2\x16\x2f", "\x16\x03\x01"}) {
    const auto url = [&](std::string_view more) {
      return fmt::format("postgresql://postgres@localhost:{}{}/postgres", proxy.port(), more);
    };
    proxy.lose_reply(std::string(lost));
    const auto p = try_url(url(""), s);
    REQUIRE_FALSE(p);
    INFO(p.error().message);
    CHECK(p.error().code == Errc::unavailable);
    proxy.lose_reply(std::string(lost));
    CHECK(works(url(fmt::format(",localhost:{}", own.port())), s));
  }
}

TEST_CASE(
    "tables are not made where another schema has some; a cut while they are made is tried "
    "again") {
  PostgresServer own;
  for (const auto* sql :
       {"CREATE ROLE ra LOGIN", "CREATE ROLE rb LOGIN", "GRANT ALL ON SCHEMA public TO public"})
    own.sql(sql);
  const auto url = [&](std::string_view user, std::uint16_t port) {
    return fmt::format("postgresql://{}@127.0.0.1:{}/postgres", user, port);
  };
  Proxy proxy{own.port()};
  proxy.lose_reply("CREATE TABLE");
  const auto cut = try_url(url("rb", proxy.port()), patient());
  REQUIRE_FALSE(cut);
  CHECK(retryable(cut.error().code));
  CHECK(works(url("rb", proxy.port()), patient()));
  own.sql("CREATE SCHEMA ra AUTHORIZATION ra");
  const auto p = try_url(url("ra", own.port()), patient());
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::denied);  // those of public, to which it has no right
  for (const auto* sql :
       {"DROP VIEW dlock", "DROP TABLE dlock_wait", "GRANT ALL ON dlock_lock TO ra"})
    own.sql(sql);
  const auto q = try_url(url("ra", own.port()), patient());
  REQUIRE_FALSE(q);
  INFO(q.error().message);
  CHECK(q.error().code == Errc::cannot_create);
  CHECK(q.error().message.find("schema public has tables of dlock") != std::string::npos);
  own.sql("CREATE TABLE ra.dlock_lock (LIKE public.dlock_lock)");
  bool told = false;
  const auto b = open_postgres(url("rb", own.port()));
  const auto found = b->doctor();
  REQUIRE(found);
  for (const auto& f : *found) told |= f.what == "other tables" && f.seen == "in schema ra";
  CHECK(told);
}

TEST_CASE("libpq's own ways to name a server") {
  PostgresServer own{{.hba = {"host all all 127.0.0.1/32 trust", "local all all trust"}}};
  own.sql("CREATE SCHEMA other");
  std::string directory = own.directory();
  for (std::size_t at = 0; (at = directory.find('/', at)) != directory.npos;)
    directory.replace(at, 1, "%2F");
  for (const std::string& where :
       {fmt::format("/postgres?host=127.0.0.1&port={}", own.port()),
        fmt::format("nowhere.invalid:{}/postgres?host=127.0.0.1", own.port()),
        fmt::format("nowhere.invalid:{}/postgres?hostaddr=127.0.0.1", own.port()),
        fmt::format("/postgres?hostaddr=127.0.0.1&port={}", own.port()),
        fmt::format("nowhere.invalid/postgres?host={}&port={}", own.directory(), own.port()),
        fmt::format("nowhere.invalid:{}/postgres?host={}", own.port(), own.directory()),
        fmt::format("/postgres?host=127.0.0.1,127.0.0.1&port=1,{}", own.port()),
        fmt::format("{}:{}/postgres", directory, own.port()),
        fmt::format("127.0.0.1:{}/postgres?options=-csearch_path%3Dother", own.port())}) {
    CAPTURE(where);
    CHECK(works("postgresql://postgres@" + where));
    const bool in_other = own.value("SELECT to_regclass('other.dlock_lock')") == "other.dlock_lock";
    CHECK(in_other == (where.find("options") != where.npos));
    own.sql("DROP TABLE IF EXISTS dlock_lock, dlock_wait CASCADE");
  }
}

TEST_CASE("a socket is never replaced by the address of a variable or a service") {
  PostgresServer own{{.hba = {"local all all trust", "host all all all trust"}}};
  CHECK(works(own.url_on_socket()));
  const auto refused = [](const std::string& url) {
    const auto p = try_url(url);
    if (!p) UNSCOPED_INFO(p.error().message);
    return !p && p.error().code == Errc::config && has(p.error().message, "PGHOSTADDR");
  };
  ::setenv("PGHOSTADDR", "127.0.0.1", 1);
  CHECK(refused(own.url_on_socket()));
  CHECK(works(fmt::format("postgresql://postgres@127.0.0.1:{}/postgres", own.port())));
  ::unsetenv("PGHOSTADDR");
  TestDirectory dir;
  const std::string file = dir.path() + "/services";
  std::FILE* f = std::fopen(file.c_str(), "we");
  std::fputs("[mine]\nhostaddr=127.0.0.1\n", f);
  std::fclose(f);
  ::setenv("PGSERVICEFILE", file.c_str(), 1);
  CHECK(refused(own.url_on_socket() + "&service=mine"));
  ::unsetenv("PGSERVICEFILE");
}

TEST_CASE("what a URL may say") {
  CHECK(wrong("postgresql://h/d").empty());
  CHECK(wrong("postgres://u:p@h1,h2:5433/d?sslmode=verify-full&application_name=x").empty());
  CHECK(wrong("postgresql+unix:///run/postgresql?db=d&port=5433").empty());
  CHECK(has(wrong("postgresql://h"), "database"));
  CHECK(has(wrong("postgresql:///d"), "host"));
  CHECK(has(wrong("postgresql+unix:///run"), "db is"));
  CHECK(has(wrong("postgresql+unix://h/run?db=d"), "three slashes"));
  CHECK(has(wrong("postgresql://h/d?db=x"), "postgresql+unix only"));
  CHECK(has(wrong("postgresql://h/d?wake=x"), "lock or poll"));
  CHECK(has(wrong("postgresql://h/d?target_session_attrs=standby"), "read-write"));
  Settings tls;
  tls.tls_ca = "/nowhere.pem";
  CHECK(has(wrong("postgresql://h/d?sslmode=require", tls), "verify-ca or verify-full"));
  CHECK(wrong("postgresql://h/d?sslmode=verify-ca", tls).empty());
  CHECK(has(wrong("postgresql+unix:///run?db=d", tls), "unix socket"));
  ::setenv("PGSSLMODE", "prefer", 1);
  CHECK(has(wrong("postgresql://h/d", tls), "PGSSLMODE"));
  CHECK(wrong("postgresql://h/d").empty());
  ::unsetenv("PGSSLMODE");
}
