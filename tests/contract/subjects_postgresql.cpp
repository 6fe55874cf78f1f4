// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "postgresql/factory.hpp"
#include "support/postgres_server.hpp"

namespace dlock::contract {
namespace {

class PostgresqlStore final : public Store {
 public:
  PostgresqlStore(std::string_view recipe, std::string items)
      : recipe_(recipe), items_(std::move(items)) {}
  std::unique_ptr<Backend> open(const Settings& s) override {
    return test::open_postgres(database_.url() + items_, s, recipe_);
  }

 private:
  std::string recipe_, items_;
  test::PostgresDatabase database_;
};

const bool postgresql_added = [] {
  const auto subject = [](const Traits& traits, const std::string& suffix,
                          const std::string& items) {
    Subject s;
    s.name = "postgresql/" + std::string{traits.recipe} + suffix;
    s.traits = &traits;
    s.make_store = [&traits, items]() -> std::unique_ptr<Store> {
      if (!test::postgres_installed()) skip_without("postgres", test::without("postgres"));
      return std::make_unique<PostgresqlStore>(traits.recipe, items);
    };
    s.owner_across_backends = traits.liveness != Liveness::connection;
    add(s);
  };
  for (const Traits& traits : postgresql::recipes) subject(traits, "", "");
  subject(postgresql::recipes[0], "-poll", "?wake=poll");
  return true;
}();

}  // namespace
}  // namespace dlock::contract
