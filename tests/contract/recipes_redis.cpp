// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "redis/factory.hpp"
#include "redis_scripts/fair_scripts.hpp"
#include "redis_scripts/named_scripts.hpp"
#include "support/redis_client.hpp"

namespace dlock::contract {
namespace {

Messages messages(std::string_view recipe) {
  using namespace redis::scripts;
  const auto text = [](const auto& script) { return std::string{script.sha}; };
  if (recipe == "fair") return {{text(acquire)}, text(renew), text(release), text(revoke)};
  Messages m{.release = text(named_release)};
  m.renewal = recipe == "getset" ? text(named_getset_renew) : text(named_renew);
  if (recipe == "set") m.grants = {text(named_set_acquire)};
  if (recipe == "setnx-expire") m.grants = {"SETNX", text(named_grant)};
  if (recipe == "getset") m.grants = {text(named_getset_acquire)};
  return m;
}

const bool redis_added = [] {
  for (const Traits& traits : redis::recipes)
    add({.name = "redis/" + std::string{traits.recipe},
         .traits = &traits,
         .make_store =
             [&traits] {
               need_server(test::missing_redis());
               static test::RedisServer server;
               std::string items = "?restart_grace=0&" + fresh_prefix();
               if (traits.recipe == "getset") items += "&unit=ms";
               return store_at(server.url() + items, redis::factory, traits);
             },
         // queued: three commands take a place and the lock, one gives it back
         .costs =
             traits.native ? Costs{.free = 2, .renewal = 1, .queued = 4.05, .wakes = 1.1} : Costs{},
         .messages = messages(traits.recipe)});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
