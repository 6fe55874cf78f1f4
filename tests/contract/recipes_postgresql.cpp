// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "postgresql/factory.hpp"
#include "support/own_clock.hpp"
#include "support/postgres_server.hpp"

namespace dlock::contract {
namespace {

const bool postgresql_added = [] {
  const auto subject = [](const Traits& traits, const std::string& suffix,
                          const std::string& items) {
    Subject s;
    s.name = "postgresql/" + std::string{traits.recipe} + suffix;
    s.traits = &traits;
    s.make_store = [&traits, items] {
      need_server(test::missing_postgres());
      test::PostgresServer::give(test::machine.directory());
      static test::PostgresDatabase database;
      return store_at(database.url() + "?" + fresh_prefix() + items, postgresql::factory, traits);
    };
    s.real_time = traits.liveness == Liveness::connection;
    s.owner_across_backends = !s.real_time;
    if (suffix.empty() && traits.recipe == "lease")
      s.costs = {.free = 2, .renewal = 2, .queued = 5.2, .wakes = 1.2};
    add(s);
  };
  for (const Traits& traits : postgresql::recipes) subject(traits, "", "");
  subject(postgresql::recipes[0], "-poll", "&wake=poll");
  return true;
}();

}  // namespace
}  // namespace dlock::contract
