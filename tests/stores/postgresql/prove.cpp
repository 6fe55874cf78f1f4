// SPDX-License-Identifier: Apache-2.0
// Promises of recipe lease on a real server that are counts of exchanges and wake-ups, and the
// order of waiters.
// postgresql_prove [--full] [PART...]
//
// Counts of exchanges are our own and are asserted; times are printed and compared with two
// prepared updates of one row, over the same library and server in the same run.
#include <stdexcept>
#include "postgresql/lease/lease_table.hpp"
#include "stores/contest.hpp"
#include "support/postgres_server.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

Place place(const PostgresDatabase& db, const std::string& name) {
  return {.name = name,
          .open = [&db] { return open_postgres(db.url()); },
          .conflicts =
              [](Backend& b) { return static_cast<postgresql::LeaseBackend&>(b).conflicts(); }};
}

void queue() {
  PostgresServer server;
  PostgresDatabase db{server};
  const Place lease = place(db, "lease");
  const auto contend = [&](unsigned n, long grants, double exchanges, double wakes) {
    contended(lease, {n, grants, exchanges, wakes, 5s});
  };
  contend(8, full ? 4000 : 800, 5.2, 1.2);
  contend(200, full ? 4000 : 1000, 6.1, 1.5);
  if (full) contend(500, 4000, 7.1, 2.0);
}

void rate(const std::string& name, long n, PostgresServer::Setup setup) {
  PostgresServer server{std::move(setup)};
  PostgresDatabase db{server};
  db.sql("CREATE TABLE pair(name text PRIMARY KEY, n bigint) WITH (fillfactor=50)");
  db.sql("INSERT INTO pair VALUES('a',0)");
  postgresql::Options o;
  o.user = "postgres";
  o.database = db.name();
  o.op_timeout = 5s;
  const auto raw =
      std::move(*postgresql::Connection::open(o, {"127.0.0.1", server.port(), {}}, 5s));
  const postgresql::Statement up{"up", "UPDATE pair SET n=n+1 WHERE name=$1"};
  uncontended(place(db, name), {.requests = 2.01, .n = n, .turns = 7, .raw = [&] {
                                  for (int i = 0; i < 2; ++i)
                                    if (!raw->query("pair", {up, {"a"}}, Clock::now() + 5s))
                                      throw std::runtime_error("pair");
                                }});
}

void rates() {
  rate("data in memory", full ? 4000 : 300, {});
  if (!full) return;
  rate("data on this disk", 1000, {.on_disk = true});
  rate("every sync of this disk 1 ms longer", 500,
       {.environment = {"LD_PRELOAD=" SLOW_SYNC, "SYNC_DELAY_US=1000"}, .on_disk = true});
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* program = missing_postgres()) return without(program);
  return run_parts(argc, argv, {{"queue", queue}, {"rates", rates}});
}
