// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` on a real server decides as LockState does.
#include <unistd.h>
#include "contract/sql_model.hpp"
#include "core/text.hpp"
#include "postgresql/lease/lease_table.hpp"
#include "postgresql_schema/schema.hpp"
#include "support/postgres_server.hpp"

using namespace dlock;
using namespace dlock::postgresql;
using namespace std::chrono_literals;

namespace {

class PostgresqlModel final : public test::SqlModel<Connection, LeaseTable> {
 public:
  PostgresqlModel() : SqlModel({.clock = "current_setting('dlock.clock')::bigint"}) {
    std::string_view rest = schema::lease;
    while (!rest.empty()) database_.sql(next_part(rest, ';'));
  }

 private:
  std::unique_ptr<Connection> connect() override {
    Options o;
    o.user = "postgres";
    o.database = database_.name();
    o.op_timeout = 30s;
    auto& server = database_.server();
    return test::must(Connection::open(o, {{}, server.port(), server.directory()}, 10s));
  }
  void set_clock_of(Connection& c, Micros now) override {
    static const SqlStatement set{"test_clock", "SELECT set_config('dlock.clock',$1,false)"};
    test::must(c.query("test", {set, {std::to_string(now)}}, test::soon()));
  }
  void let_go(Connection& c) override {
    static const SqlStatement all{"", "SELECT pg_advisory_unlock_all()"};
    test::must(c.query("test", {all}, test::soon()));
    c.locks.clear();
    c.wake_lock = 0;
  }
  void empty_tables() override { database_.sql("TRUNCATE dlock_lock, dlock_wait"); }
  void end(std::unique_ptr<Connection> c, const Owner&) override {
    const int pid = c->facts().pid;
    c.reset();
    while (value(fmt::format("SELECT count(*) FROM pg_locks WHERE pid={}", pid)) != "0")
      ::usleep(200);
  }
  void execute(const std::string& sql) override { database_.sql(sql); }
  std::string value(const std::string& sql) override { return database_.value(sql); }

  test::PostgresDatabase database_;
};

}  // namespace

TEST_CASE("the database and LockState decide alike, with a clock that meets every edge") {
  PostgresqlModel{}.run(20'000);
}
