// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "mysql/factory.hpp"
#include "support/mariadb_server.hpp"

namespace dlock::contract {
namespace {

class MysqlStore final : public Store {
 public:
  explicit MysqlStore(const Traits& traits, std::string items = "")
      : recipe_(traits.recipe), items_(std::move(items)) {
    // Listing needs a prefix; named locks are per server, not per database.
    if (!traits.native) items_ += "&prefix=" + database_.name() + ":";
    if (!items_.empty()) items_.front() = '?';
  }
  std::unique_ptr<Backend> open(const Settings& s) override {
    return test::open_mysql(database_.url() + items_, s, recipe_);
  }

 private:
  std::string recipe_, items_;
  test::Database database_;
};

const bool mysql_added = [] {
  const auto subject = [](const Traits& traits, const std::string& suffix,
                          const std::string& items) {
    Subject s;
    s.name = "mysql/" + std::string{traits.recipe} + suffix;
    s.traits = &traits;
    s.make_store = [&traits, items]() -> std::unique_ptr<Store> {
      if (!test::mariadb_installed()) skip_without("mariadbd", test::without("mariadbd"));
      return std::make_unique<MysqlStore>(traits, items);
    };
    if (traits.liveness == Liveness::connection) {
      s.owner_across_backends = false;
      s.shortest_ttl = std::chrono::seconds{1};  // wait_timeout has whole seconds
    }
    add(s);
  };
  for (const Traits& traits : mysql::recipes) subject(traits, "", "");
  subject(mysql::recipes[0], "-poll", "&wake=poll");
  return true;
}();

}  // namespace
}  // namespace dlock::contract
