// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` on a real server decides as LockState does, and the simulated server answers as
// the real one.
#include <unistd.h>
#include "contract/sql_model.hpp"
#include "mysql/lease/lease_table.hpp"
#include "mysql_schema/schema.hpp"
#include "simulation/sql_server.hpp"
#include "simulation/sql_text.hpp"
#include "simulation/world.hpp"
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
    c.bell.clear();
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

namespace {

constexpr std::string_view sets_clock = "SET @dlock_clock=", empties = "DELETE FROM dlock_lock;";

// Loses no session and no writes: how those ended is not logged.
class LoggedModel final : public MysqlModel {
  using MysqlModel::MysqlModel;
  bool lose(const Owner&) override { return false; }
  bool remember() override { return false; }
};

// What the clients of a random history sent: their number, and the text.
std::vector<std::pair<std::string, std::string>> logged_history(test::MariadbServer& server) {
  test::Database database{server};
  server.sql(  // as text, not prepared
      "SET GLOBAL max_prepared_stmt_count=0,GLOBAL log_output='TABLE',GLOBAL general_log=1");
  LoggedModel{database}.run(3'000);
  server.sql("SET GLOBAL general_log=0");
  const auto log =
      server.sql("SELECT thread_id,argument FROM mysql.general_log WHERE command_type='Query'");
  std::vector<std::pair<std::string, std::string>> all;
  for (std::size_t i = 0; i < log.rows.size(); ++i)
    all.emplace_back(log.text(0, i), log.text(1, i));
  return all;
}

std::string on_its_own_clock(std::string text) {
  constexpr std::string_view variable = "@dlock_clock";
  for (std::size_t at = 0; (at = text.find(variable, at)) != text.npos;)
    text.replace(at, variable.size(), server_clock);
  return text;
}

std::string text_of(const std::vector<simulation::sql::Row>& rows) {
  std::string all;
  for (const auto& row : rows) {
    for (const auto& cell : row) all += cell.value_or("NULL") + " | ";
    all += '\n';
  }
  return all;
}

}  // namespace

// Its hashes are not asked for here.
std::uint64_t dlock::simulation::hash_of(std::string_view) noexcept { return 0; }

TEST_CASE("the simulated server gives the rows of a real one") {
  test::MariadbServer own;
  const auto log = logged_history(own);
  test::Database database{own};
  database.sql(schema::lease);
  struct Client {
    std::unique_ptr<Connection> real;
    simulation::sql::Session simulated;
    Micros now = 0;
  };
  std::map<std::string, Client> clients;
  simulation::sql::Server simulated;
  bool known = false;  // since the tables were emptied
  long compared = 0;
  for (const auto& [number, text] : log) {
    INFO(text);
    if (text.starts_with(empties)) {
      database.sql(text);
      simulated.forget_rows();
      simulation::sql::Session any;
      simulated.execute(any, "CREATE TABLE IF NOT EXISTS dlock_lock", 0);
      known = true;
    }
    if (text.starts_with(sets_clock) && !clients.contains(number)) {
      clients[number].real = test::connect_as_root(own.socket(), database.name());
      clients[number].simulated.number = clients.size();
    }
    const auto found = clients.find(number);
    if (found == clients.end()) continue;
    Client& c = found->second;
    for (const std::string& one : simulation::sql::statements_in(text)) {
      const auto answer = test::must(c.real->query("test", one, test::soon()));
      if (one.starts_with(sets_clock)) c.now = std::stoll(one.substr(sets_clock.size()));
      else if (one == "DO RELEASE_ALL_LOCKS()") simulated.names.release_all(c.simulated.number);
      else if (known || one.starts_with("INSERT INTO dlock_wait")) try {  // which counts tickets
          const auto reply = simulated.execute(c.simulated, on_its_own_clock(one), c.now);
          if (known) REQUIRE(text_of(reply.rows) == text_of(answer.rows));
          if (known) REQUIRE(reply.affected == answer.affected);
          compared += known;
        } catch (const simulation::sql::Unknown&) { known = false; }  // --revoke: no scenario does
    }
  }
  WARN(compared << " statements of " << log.size() << " requests were compared");
  CHECK(compared > 1'000);
}
