// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "bench_run.hpp"
#include "core/text.hpp"
#include "postgresql/factory.hpp"
#include "postgresql_schema/schema.hpp"
#include "support/postgres_server.hpp"

namespace dlock::test {
namespace {

class Postgresql final : public Store {
 public:
  const BackendFactory& factory() const override { return postgresql::factory; }
  std::string url(const std::string& prefix) const override {
    return db_.url() + (prefix.empty() ? "" : "?prefix=" + prefix);
  }
  void plant() override {
    std::string_view rest = postgresql::schema::lease;
    while (!rest.empty()) db_.sql(next_part(rest, ';'));
    db_.sql(postgresql::schema::advisory);
    for (const char* name : {"b", "b0-handoff", "0-handoff", "B-0-handoff", "c-0-handoff"}) {
      db_.sql(fmt::format(
          "INSERT INTO dlock_lock(name,version,fence,state,updated) VALUES('{}',1,1,'',0)", name));
      db_.sql(
          fmt::format("INSERT INTO dlock_wait(name,owner,mode,permits,live,since,who) "
                      "VALUES('{}','o','X',1,0,0,'')",
                      name));
      db_.sql(fmt::format("INSERT INTO dlock_advisory VALUES('hashtext:{}',1,'',0,0,'')", name));
    }
  }
  std::vector<std::string> everything() override {
    std::vector<std::string> all;
    for (const char* table : {"dlock_lock", "dlock_wait", "dlock_advisory"}) {
      if (db_.value(fmt::format("SELECT to_regclass('{}') IS NULL", table)) == "t") continue;
      const auto rows = db_.sql(fmt::format("SELECT t::text FROM {} t", table));
      for (std::size_t r = 0; r < rows.rows.size(); ++r)
        all.push_back(fmt::format("{} {}", table, rows.text(0, r)));
    }
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  mutable PostgresDatabase db_;
};

}  // namespace

std::unique_ptr<Store> make_store() { return std::make_unique<Postgresql>(); }

}  // namespace dlock::test
