// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "redis/factory.hpp"
#include "support/redis_client.hpp"

namespace dlock::contract {
namespace {

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
         .costs = traits.native ? Costs{.free = 2, .queued = 4.05, .wakes = 1.1} : Costs{}});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
