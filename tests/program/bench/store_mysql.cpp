// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "bench_run.hpp"
#include "mysql/factory.hpp"
#include "mysql_schema/schema.hpp"
#include "support/mariadb_server.hpp"

namespace dlock::test {
namespace {

class Mysql final : public Store {
 public:
  const BackendFactory& factory() const override { return mysql::factory; }
  std::string url(const std::string& prefix) const override {
    return db_.url() + (prefix.empty() ? "" : "?prefix=" + prefix);
  }
  void plant() override {
    for (const auto schema :
         {mysql::schema::lease, mysql::schema::get_lock, mysql::schema::for_update,
          mysql::schema::insert, mysql::schema::version})
      db_.sql(schema);
    for (const char* name : {"b", "b0-handoff", "0-handoff", "B-0-handoff", "c-0-handoff"}) {
      db_.sql(fmt::format(
          "INSERT INTO dlock_lock(name,version,fence,state,updated) VALUES('{}',1,1,'',0)", name));
      db_.sql(
          fmt::format("INSERT INTO dlock_wait(name,owner,mode,permits,live,since,who) "
                      "VALUES('{}','o','X',1,0,0,'')",
                      name));
      db_.sql(fmt::format("INSERT INTO dlock_row VALUES('{}')", name));
      db_.sql(fmt::format(
          "INSERT INTO method_lock(method_name,method_desc) VALUES('{}','of others')", name));
      for (const char* table : {"dlock_named", "dlock_grant", "dlock_insert"})
        db_.sql(fmt::format("INSERT INTO {} VALUES('{}',1,'',0,0,0,'')", table, name));
      db_.sql(fmt::format("INSERT INTO dlock_version VALUES('{}',1,1,'',0,0,0,'')", name));
    }
  }
  std::vector<std::string> everything() override {
    std::vector<std::string> all;
    const auto tables = db_.sql("SHOW TABLES");
    for (std::size_t t = 0; t < tables.rows.size(); ++t) {
      const auto rows = db_.sql(fmt::format("SELECT * FROM {}", tables.text(0, t)));
      for (std::size_t r = 0; r < rows.rows.size(); ++r) {
        std::string line{tables.text(0, t)};
        for (std::size_t c = 0; c < rows.rows[r].size(); ++c)
          line += fmt::format(" {}", rows.text(c, r));
        all.push_back(std::move(line));
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  Database& db() { return db_; }

 private:
  mutable Database db_;
};

}  // namespace

TEST_CASE("foreign rows below the prefix: refused, whether they are locked or not") {
  Mysql store;
  store.plant();
  store.db().sql("INSERT INTO method_lock(method_name,method_desc) VALUES('b-x','of others')");
  store.db().sql(
      "CREATE TABLE QRTZ_LOCKS(SCHED_NAME VARCHAR(120) NOT NULL, LOCK_NAME VARCHAR(40) NOT NULL, "
      "PRIMARY "
      "KEY(SCHED_NAME,LOCK_NAME))");
  store.db().sql("INSERT INTO QRTZ_LOCKS VALUES('s','b-x'),('t','c-x')");
  const auto before = store.everything();
  const std::string quartz = "?table=QRTZ_LOCKS&key_column=LOCK_NAME&where.SCHED_NAME=";
  Dlock insert(bench(store, {"--recipe", "insert", "-d", "100ms"}));
  CHECK(insert.end() == "exit 64");
  CHECK(insert.said().find("'x'") != std::string::npos);
  Dlock update({"bench", "-b", store.url("") + quartz + "s", "--recipe", "for-update", "--prefix",
                "b-", "-d", "100ms"});
  CHECK(update.end() == "exit 64");
  CHECK(update.said().find("'x'") != std::string::npos);
  CHECK(store.everything() == before);
  Dlock other({"bench", "-b", store.url("") + quartz + "t", "--recipe", "for-update", "--prefix",
               "b-", "-N", "30"});
  CHECK(other.end() == "exit 0");
  CHECK(store.everything() == before);
}

std::unique_ptr<Store> make_store() { return std::make_unique<Mysql>(); }

}  // namespace dlock::test
