// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` on a real server decides as LockState does.
#include <unistd.h>
#include "contract/sql_model.hpp"
#include "mysql/lease/lease_table.hpp"
#include "mysql_schema/schema.hpp"
#include "support/mariadb_server.hpp"

using namespace dlock;
using namespace dlock::mysql;
using namespace std::chrono_literals;

namespace {

class MysqlModel : public test::SqlModel<Connection, LeaseTable> {
 public:
  explicit MysqlModel(test::Database& database)
      : SqlModel({.clock = "@dlock_clock"}), database_(database) {
    database_.sql(schema::lease);
  }

 private:
  std::unique_ptr<Connection> connect() override {
    Options o;
    o.user = "root";
    o.database = database_.name();
    o.op_timeout = 30s;
    return test::must(Connection::open(o, {{}, 0, socket_}, 10s));
  }
  void set_clock_of(Connection& c, Micros now) override {
    test::must(c.query("test", fmt::format("SET @dlock_clock={}", now), test::soon()));
  }
  void let_go(Connection& c) override {
    test::must(c.query("test", "DO RELEASE_ALL_LOCKS()", test::soon()));
    c.names.clear();
    c.wake_lock.clear();
  }
  void empty_tables() override { database_.sql("DELETE FROM dlock_lock; DELETE FROM dlock_wait"); }
  void end(std::unique_ptr<Connection> c, const Owner& owner) override {
    c->abandon();
    c.reset();
    while (value(fmt::format(
               "SELECT IS_USED_LOCK('dl:{0}') IS NULL AND IS_USED_LOCK('dq:{0}') IS NULL",
               owner.hex())) != "1")
      ::usleep(200);
  }
  void execute(const std::string& sql) override { database_.sql(sql); }
  std::string value(const std::string& sql) override { return database_.value(sql); }

  test::Database& database_;
  const std::string socket_ = database_.value("SELECT @@socket");  // cheaper than TCP
};

}  // namespace

TEST_CASE("the database and LockState decide alike, with a clock that meets every edge") {
  test::Database database;
  MysqlModel{database}.run(20'000);
}

// With a statement-based binary log sessions are REPEATABLE READ, and rows read by a subquery are
// locked.
TEST_CASE("the same with REPEATABLE READ sessions") {
  test::MariadbServer own{{.config = {"log-bin=b", "server-id=7", "binlog_format=STATEMENT"}}};
  test::Database database{own};
  MysqlModel{database}.run(3'000);
}
