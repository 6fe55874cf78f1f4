// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include "contract/subject.hpp"
#include "postgresql/factory.hpp"
#include "support/postgres_server.hpp"

namespace dlock::contract {
namespace {

class PostgresqlStore final : public Store {
 public:
  explicit PostgresqlStore(std::string items) : items_(std::move(items)) {}
  std::unique_ptr<Backend> open(const Settings& s) override {
    return test::open_postgres(database_.url() + items_, s);
  }

 private:
  std::string items_;
  test::PostgresDatabase database_;
};

const bool postgresql_added = [] {
  for (const auto& [suffix, items] : {std::pair{"", ""}, {"-poll", "?wake=poll"}}) {
    Subject s;
    s.name = std::string("postgresql/lease") + suffix;
    s.traits = postgresql::recipes.data();
    s.make_store = [items = items]() -> std::unique_ptr<Store> {
      if (!test::postgres_installed()) {
        if (test::without("postgres") != test::skipped) std::exit(1);
        throw Skip{"postgres is not installed"};
      }
      return std::make_unique<PostgresqlStore>(items);
    };
    add(s);
  }
  return true;
}();

}  // namespace
}  // namespace dlock::contract
