// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "mysql/factory.hpp"
#include "support/mariadb_server.hpp"

namespace dlock::contract {
namespace {

// The server that ctest started has another clock.
std::shared_ptr<test::Database> database_for(const Traits& traits) {
  if (traits.liveness == Liveness::connection) return std::make_shared<test::Database>();
  static test::MariadbServer own;
  return std::make_shared<test::Database>(own);
}

const bool mysql_added = [] {
  const auto subject = [](const Traits& traits, const std::string& suffix,
                          const std::string& items) {
    Subject s;
    s.name = "mysql/" + std::string{traits.recipe} + suffix;
    s.traits = &traits;
    s.make_store = [&traits, items] {
      need_server(test::missing_mariadb());
      const auto database = database_for(traits);
      std::string all = items;
      // Listing needs a prefix; named locks are per server, not per database.
      if (!traits.native) all += "&prefix=" + database->name() + ":";
      if (!all.empty()) all.front() = '?';
      return store_at(database->url() + all, mysql::factory, traits, database);
    };
    if (traits.liveness == Liveness::connection) {
      s.real_time = true;
      s.owner_across_backends = false;
      s.shortest_ttl = std::chrono::seconds{1};  // wait_timeout has whole seconds
    }
    if (suffix.empty() && traits.recipe == "lease")
      s.costs = {.free = 2, .renewal = 2, .queued = 5.5, .wakes = 1.1};
    if (traits.recipe == "get-lock") s.costs.free = 2;
    if (traits.recipe == "insert") s.messages.grants = {"INSERT INTO `method_lock`"};
    if (traits.recipe == "version") s.messages.grants = {"UPDATE dlock_version"};
    add(s);
  };
  for (const Traits& traits : mysql::recipes) subject(traits, "", "");
  subject(mysql::recipes[0], "-poll", "&wake=poll");
  return true;
}();

}  // namespace
}  // namespace dlock::contract
