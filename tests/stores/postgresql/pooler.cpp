// SPDX-License-Identifier: Apache-2.0
// PgBouncer in transaction mode: the session that answers may be another one each time.
#include <pwd.h>
#include <algorithm>
#include <csignal>
#include <fstream>
#include "faults.hpp"
#include "stores/contention.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

class Bouncer {
 public:
  // With a password, for user postgres: it knows database postgres alone.
  Bouncer(const PostgresServer& to, std::string_view mode, std::string_view password = "")
      : port_(free_port()) {
    const std::string ini = dir_.path() + "/ini", users = dir_.path() + "/users";
    {
      std::ofstream(users) << fmt::format("\"postgres\" \"{}\"\n", password);
      std::ofstream out(ini);
      out << fmt::format(
          "[databases]\n{} = host=127.0.0.1 user=postgres port={}\n[pgbouncer]\n"
          "listen_addr=127.0.0.1\nlisten_port={}\nauth_type={}\nauth_file={}\npool_mode={}\n"
          "default_pool_size=2\nunix_socket_dir=\nlogfile={}/log\n",
          password.empty() ? "*" : "postgres", to.port(), port_,
          password.empty() ? "any" : "scram-sha-256", users, mode, dir_.path());
    }
    PostgresServer::give(dir_.path());
    const passwd* p = ::geteuid() == 0 ? ::getpwnam("postgres") : nullptr;
    std::vector<std::string> words;
    if (p)
      words = {"setpriv", fmt::format("--reuid={}", p->pw_uid),
               fmt::format("--regid={}", p->pw_gid), "--clear-groups", "--pdeathsig=KILL"};
    words.insert(words.end(), {"pgbouncer", ini});
    const char* path = std::getenv("PATH");
    ::setenv("PATH", (std::string(path ? path : "") + ":/usr/sbin").c_str(), 1);
    pid_ = start_server(words, {.log = dir_.path() + "/out"});
  }
  ~Bouncer() { ::kill(pid_, SIGKILL); }
  std::string url(const PostgresDatabase& db) const { return url("postgres", db.name()); }
  std::string url(std::string_view user, std::string_view database) const {
    return fmt::format("postgresql://{}@127.0.0.1:{}/{}", user, port_, database);
  }

 private:
  TestDirectory dir_;
  std::uint16_t port_;
  pid_t pid_ = -1;
};

// Why the pooler refuses it, as soon as it answers.
Error refused(Backend& b) {
  Result<Progress> p = fail(Errc::unavailable, "");
  becomes([&] {
    p = waiter(b, request(key("k")))->poll(0us);
    return p || !retryable(p.error().code);
  });
  REQUIRE_FALSE(p);
  return p.error();
}

}  // namespace

TEST_CASE("what PgBouncer refuses is refused for good: a password, a database") {
  if (::access("/usr/sbin/pgbouncer", X_OK) != 0) {
    WARN("pgbouncer is not installed");
    return;
  }
  const Bouncer bouncer{server(), "transaction", "right"};
  const auto code = [&](std::string_view user, std::string_view database) {
    const auto b = open_postgres(bouncer.url(user, database), quick(3s, 5s));
    return refused(*b).code;
  };
  CHECK(code("postgres:wrong", "postgres") == Errc::denied);
  CHECK(code("postgres:right", "none") == Errc::cannot_create);
}

TEST_CASE("advisory: behind PgBouncer nothing is granted, and the doctor says so") {
  if (::access("/usr/sbin/pgbouncer", X_OK) != 0) {
    WARN("pgbouncer is not installed");
    return;
  }
  const auto mode = GENERATE("transaction", "session");
  CAPTURE(mode);
  PostgresDatabase db{server()};
  const Bouncer bouncer{server(), mode};
  const auto b = open_postgres(bouncer.url(db), quick(3s, 5s), "advisory");
  const Error e = refused(*b);
  CHECK(e.code == Errc::usage);
  CHECK(e.message ==
        "postgresql, recipe advisory: behind a pooler a lock ends up with the next user of the "
        "session; connect to the server itself, or use recipe lease");
  const auto findings = b->doctor().value();
  CHECK(std::any_of(findings.begin(), findings.end(), [](const Finding& f) {
    return f.what == "pooler" && f.level == Finding::Level::bad && f.seen == "between: refused";
  }));
}

TEST_CASE("behind PgBouncer waiters poll, and locks are locks") {
  if (::access("/usr/sbin/pgbouncer", X_OK) != 0) {
    WARN("pgbouncer is not installed");
    return;
  }
  const auto mode = GENERATE("transaction", "session");
  const std::string items = GENERATE("", "?wake=poll");
  CAPTURE(mode, items);
  PostgresDatabase db{server()};
  const Bouncer bouncer{server(), mode};
  const auto direct = open_postgres(db.url(), patient());
  warm_up(*direct, 1);
  std::vector<std::unique_ptr<Backend>> all;
  const unsigned n = mode == std::string_view{"session"} ? 2 : 6;  // that many sessions fit
  for (unsigned i = 0; i < n; ++i)
    all.push_back(open_postgres(bouncer.url(db) + items, quick(3s, 5s)));
  REQUIRE(becomes([&] { return all[0]->inspect(key("k")).has_value(); }));
  bool seen_pooler = false;
  const auto findings = answered([&] { return all[0]->doctor(); });
  for (const auto& f : findings)
    seen_pooler |= f.what == "pooler" && f.seen.find("poll") != std::string::npos;
  CHECK(seen_pooler);
  all[0] = open_postgres(bouncer.url(db) + items, quick(3s, 5s));
  const Lease first = acquire_or_fail(*direct, request(key("contended0"), 60s));
  Contention clients{{.open = [&](unsigned i) { return std::move(all[i]); },
                      .clients = n,
                      .ttl = 6s,
                      .seed = Catch::rngSeed()}};
  ::usleep(300'000);
  CHECK(clients.grants() == 0);
  release_or_fail(*direct, first);
  CHECK(becomes([&] { return clients.grants() >= n * 3; }, 200s));
  CHECK(clients.violations() == "");
  CHECK(db.value("SELECT count(*) FROM dlock_wait") == "0");
  CHECK(server().value("SELECT count(*) FROM pg_locks WHERE locktype='advisory' AND pid IN (SELECT "
                       "pid FROM pg_stat_activity WHERE application_name LIKE '%bouncer%')") ==
        "0");
}
