// SPDX-License-Identifier: Apache-2.0
// TLS to each store: whom a client trusts, and to whom it shows its certificate. What is a store's
// own is in its folder.
#include <fmt/format.h>
#include <sys/stat.h>
#include <csignal>
#include <functional>
#include <memory>
#include "support/catch/run.hpp"
#include "support/certificates.hpp"
#include "support/etcd_server.hpp"
#include "support/mariadb_server.hpp"
#include "support/polling.hpp"
#include "support/postgres_server.hpp"
#include "support/redlock_masters.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

using Files = Authority::Files;  // empty: without TLS
// `tls`: the word of ?tls=, or PostgreSQL's of ?sslmode=
using Open = std::function<std::unique_ptr<Backend>(const std::string& host, const std::string& tls,
                                                    const Settings&)>;
struct Server {
  std::shared_ptr<void> running;
  Open open;
};
enum class Asks { nothing, certificate };  // of clients

std::vector<std::string> redis_config(const Files& files, const std::string& ca, Asks asks) {
  return {"tls-cert-file " + files.cert, "tls-key-file " + files.key, "tls-ca-cert-file " + ca,
          asks == Asks::nothing ? "tls-auth-clients no" : "tls-auth-clients yes"};
}
Server start_redis(const Files& files, const std::string& ca, Asks asks) {
  RedisServer::Setup setup;
  const std::uint16_t tls_port = free_port();
  if (!files.cert.empty()) {
    setup.config = redis_config(files, ca, asks);
    setup.config.push_back(fmt::format("tls-port {}", tls_port));
    setup.plain_port = false;
  }
  const auto server = std::make_shared<RedisServer>(setup);
  const auto port = files.cert.empty() ? server->port() : tls_port;
  return {server, [port](const std::string& host, const std::string& tls, const Settings& s) {
            return open_redis(fmt::format("rediss://{}:{}?restart_grace=0&tls={}", host, port, tls),
                              s);
          }};
}
Server start_redlock(const Files& files, const std::string& ca, Asks asks) {
  RedlockMasters::Setup setup{.count = 3};
  if (!files.cert.empty()) setup.tls = [&](std::size_t) { return redis_config(files, ca, asks); };
  const auto masters = std::make_shared<RedlockMasters>(setup);
  return {masters,
          [&m = *masters](const std::string& host, const std::string& tls, const Settings& s) {
            return open_redlock(m.url_of("", host, "?restart_grace=0&tls=" + tls), s);
          }};
}
Server start_mysql(const Files& files, const std::string& ca, Asks asks) {
  std::vector<std::string> config{"skip-ssl"};
  if (!files.cert.empty())
    config = {"ssl-cert=" + files.cert, "ssl-key=" + files.key, "ssl-ca=" + ca};
  const auto server = std::make_shared<MariadbServer>(MariadbServer::Setup{.config = config});
  server->sql(
      fmt::format("CREATE DATABASE d; CREATE USER app@'%' REQUIRE {}; GRANT ALL ON *.* TO "
                  "app@'%'",
                  files.cert.empty()      ? "NONE"
                  : asks == Asks::nothing ? "SSL"
                                          : "X509"));
  return {server, [port = server->port()](const std::string& host, const std::string& tls,
                                          const Settings& s) {
            return open_mysql(fmt::format("mysql://app@{}:{}/d?tls={}", host, port, tls), s);
          }};
}
Server start_postgresql(const Files& files, const std::string& ca, Asks asks) {
  PostgresServer::Setup setup{.hba = {"host all all all trust"}};
  if (!files.cert.empty()) {
    setup.config = {"ssl=on", "ssl_cert_file='" + files.cert + "'",
                    "ssl_key_file='" + files.key + "'", "ssl_ca_file='" + ca + "'"};
    setup.hba = {asks == Asks::nothing ? "hostssl all all all trust"
                                       : "hostssl all all all trust clientcert=verify-ca"};
    PostgresServer::give(files.key);
  }
  const auto server = std::make_shared<PostgresServer>(setup);
  return {server, [port = server->port()](const std::string& host, const std::string& tls,
                                          const Settings& s) {
            return open_postgres(fmt::format("postgresql://postgres@{}:{}/postgres?sslmode={}",
                                             host, port, tls == "yes" ? "verify-full" : tls),
                                 s);
          }};
}
Server start_etcd(const Files& files, const std::string& ca, Asks asks) {
  EtcdServer::Setup setup{.members = 1, .durable = false, .flags = {}};
  if (!files.cert.empty()) {
    setup.flags = {"--cert-file", files.cert, "--key-file", files.key};
    setup.scheme = "https";
  }
  if (asks == Asks::certificate)
    setup.flags.insert(setup.flags.end(), {"--client-cert-auth", "--trusted-ca-file", ca});
  const auto server = std::make_shared<EtcdServer>(setup);
  const std::string port = server->host().substr(server->host().rfind(':'));
  return {server, [port](const std::string& host, const std::string& tls, const Settings& s) {
            return open_etcd("etcds://" + host + port + "?tls=" + tls, s);
          }};
}

struct Certificates {
  TestDirectory dir;
  Authority ours{dir.path(), "ours"}, theirs{dir.path(), "theirs"};
  Files good = ours.issue("good", "DNS:localhost,IP:127.0.0.1"),
        misnamed = ours.issue("misnamed", "DNS:db7.example,IP:127.0.0.2"),
        old = ours.issue("old", "DNS:localhost", -1), client = ours.issue("client", "DNS:client"),
        stranger = theirs.issue("stranger", "DNS:client");
  Certificates() {
    ::chmod(dir.path().c_str(), 0755);
    for (const Files* files : {&good, &misnamed, &old, &client, &stranger}) {
      ::chmod(files->cert.c_str(), 0644);
      ::chmod(files->key.c_str(), 0600);
    }
    for (const Authority* a : {&ours, &theirs}) ::chmod(a->file().c_str(), 0644);
  }
};

// A lock is granted, waited for and handed on, all over this TLS; else why not.
Result<void> use(const Open& open, const std::string& host, const std::string& tls,
                 const Settings& s) {
  const Request r = request(*Key::parse("k"), 10s);
  const auto a = open(host, tls, s), b = open(host, tls, s);
  auto first = (*a->enqueue(r))->poll(0s);
  // a server may need a moment more
  for (int i = 0; i < 50 && !first && first.error().code == Errc::unavailable; ++i) {
    ::usleep(100'000);
    first = (*a->enqueue(r))->poll(0s);
  }
  if (!first) return fail(first.error());
  const auto behind = *b->enqueue(request(r.key, 10s));
  CHECK(waits(*behind, 50ms));
  release_or_fail(*a, std::get<Granted>(*first).lease);
  release_or_fail(*b, granted_within(*behind));
  return {};
}

using Start = Server (*)(const Files&, const std::string& ca, Asks);

void trusts_and_shows(const char* missing, Start start) {
  if (missing) {
    REQUIRE(without(missing) == skipped);
    return;
  }
  const Certificates c;
  const Files none;
  struct Row {
    const char* what;
    const Files& server;
    Asks asks;
    const char* host;
    const Authority& trusted;
    const Files& shown;
    bool good;
    const char* name = "";  // that is expected, unless it is the host
    const char* tls = "yes";
  };
  for (const Row& row :
       {Row{"by name", c.good, Asks::nothing, "localhost", c.ours, none, true},
        Row{"by address", c.good, Asks::nothing, "127.0.0.1", c.ours, none, true},
        Row{"another authority", c.good, Asks::nothing, "localhost", c.theirs, none, false},
        Row{"another name", c.misnamed, Asks::nothing, "localhost", c.ours, none, false},
        Row{"another address", c.misnamed, Asks::nothing, "127.0.0.1", c.ours, none, false},
        Row{"expired", c.old, Asks::nothing, "localhost", c.ours, none, false},
        Row{"the name that is expected", c.misnamed, Asks::nothing, "localhost", c.ours, none, true,
            "db7.example"},
        Row{"the address that is expected", c.misnamed, Asks::nothing, "localhost", c.ours, none,
            true, "127.0.0.2"},
        Row{"not the name that is expected", c.good, Asks::nothing, "localhost", c.ours, none,
            false, "db7.example"},
        Row{"the name, of another authority", c.misnamed, Asks::nothing, "localhost", c.theirs,
            none, false, "db7.example"},
        Row{"the chain alone", c.misnamed, Asks::nothing, "localhost", c.ours, none, true, "",
            "verify-ca"},
        Row{"the chain alone, of another authority", c.misnamed, Asks::nothing, "localhost",
            c.theirs, none, false, "", "verify-ca"},
        Row{"the chain alone, expired", c.old, Asks::nothing, "localhost", c.ours, none, false, "",
            "verify-ca"},
        Row{"ours is asked for", c.good, Asks::certificate, "localhost", c.ours, c.client, true},
        Row{"ours is missing", c.good, Asks::certificate, "localhost", c.ours, none, false},
        Row{"ours is a stranger's", c.good, Asks::certificate, "localhost", c.ours, c.stranger,
            false}}) {
    CAPTURE(row.what);
    const Server server = start(row.server, c.ours.file(), row.asks);
    Settings s = quick(5s, 5s);
    s.tls_ca = row.trusted.file();
    s.tls_cert = row.shown.cert;
    s.tls_key = row.shown.key;
    s.tls_name = row.name;
    // A machine that is too busy for an answer says nothing of certificates.
    auto used = use(server.open, row.host, row.tls, s);
    for (int more = 5; !used && retryable(used.error().code) && more > 0; --more)
      used = use(server.open, row.host, row.tls, s);
    INFO((used ? "" : used.error().message));
    CHECK(used.has_value() == row.good);
    // MariaDB ends the connection of a stranger without a word
    if (!used && row.shown.cert != c.stranger.cert) CHECK(used.error().code == Errc::denied);
    if (!used && row.asks == Asks::nothing)
      CHECK_THAT(used.error().message, Catch::Contains("certificate", Catch::CaseSensitive::No));
  }
  const Server plain = start(none, "", Asks::nothing);
  Settings s = quick(1s, 1s);
  s.tls_ca = c.ours.file();
  for (const char* tls : {"yes", "verify-ca"})
    CHECK_FALSE((*plain.open("127.0.0.1", tls, s)->enqueue(request(*Key::parse("k"))))->poll(0s));
}

}  // namespace

// A test each, side by side (CMakeLists.txt).
TEST_CASE("TLS: what Redis's client trusts, and shows") {
  trusts_and_shows(missing_redis(), start_redis);
}
TEST_CASE("TLS: what Redlock's client trusts, and shows", "[redlock]") {
  trusts_and_shows(missing_redis(), start_redlock);
}
TEST_CASE("TLS: what MySQL's client trusts, and shows", "[mysql]") {
  trusts_and_shows(missing_mariadb(), start_mysql);
}
TEST_CASE("TLS: what PostgreSQL's client trusts, and shows", "[postgresql]") {
  trusts_and_shows(missing_postgres(), start_postgresql);
}
TEST_CASE("TLS: what etcd's client trusts, and shows", "[etcd]") {
  trusts_and_shows(missing_etcd(), start_etcd);
}

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // no test may rely on an ignored SIGPIPE
  return run_catch(argc, argv);
}
