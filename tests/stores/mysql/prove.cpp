// SPDX-License-Identifier: Apache-2.0
// Promises of recipes lease and get-lock on a real server that are counts of statements and
// wake-ups, and the order of waiters.
// mysql_prove [--full] [PART...]
//
// Parts: memory; with --full or by name, crowd, disk.
#include "mysql/lease/lease_table.hpp"
#include "stores/contest.hpp"
#include "support/mariadb_server.hpp"

using namespace dlock;
using namespace dlock::prove;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

Place place(const Database& db, const std::string& name, const char* recipe) {
  Place p{.name = name, .open = [&db, recipe] { return open_mysql(db.url(), {}, recipe); }};
  if (std::string_view{recipe} == "lease")
    p.conflicts = [](Backend& b) { return static_cast<mysql::LeaseBackend&>(b).conflicts(); };
  return p;
}

void memory() {
  MariadbServer server;
  Database db{server};
  for (const char* recipe : {"lease", "get-lock"})
    uncontended(place(db, recipe, recipe), {.requests = 2, .n = 100});
  const Place lease = place(db, "lease", "lease");
  // each waiter looks every 5 s besides
  contended(lease, {8, full ? 4000 : 800, 5.5, 1.1, 5s});
  contended(lease, {200, full ? 4000 : 1000, 6.6, 2.2, 5s});
  if (full) contended(lease, {500, 4000, 8.0, 2.8, 5s});
}

// More than the server's deadlock search depth wait at once, each with a connection.
void crowd() {
  MariadbServer server{{.config = {"max_connections=1050"}}};
  Database db{server};
  contended(place(db, "lease, a crowd", "lease"), {.waiters = 1000, .grants = 1000});
}

void disk() {
  MariadbServer server{{.on_disk = true}};
  Database db{server};
  contended(place(db, "lease, on disk", "lease"), {8, 1000, 5.5, 1.1, 5s});
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* program = missing_mariadb()) return without(program);
  return run_parts(argc, argv, {{"memory", memory}, {"crowd", crowd, true}, {"disk", disk, true}});
}
