// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "support/redlock_masters.hpp"

namespace dlock::contract {
namespace {

const bool redlock_added = [] {
  add({.name = "redlock/redlock",
       .traits = &redlock::recipes[0],
       .make_store =
           [] {
             need_server(test::missing_redis());
             static test::RedlockMasters masters;
             return store_at(masters.url("?restart_grace=0&" + fresh_prefix()), redlock::factory,
                             redlock::recipes[0]);
           },
       // each undone attempt is followed by one with a new owner
       .owner_across_backends = false,
       // a master has a twentieth of the ttl to answer, and 200 ms at most
       .shortest_ttl = std::chrono::seconds{4},
       .tries_go_unanswered = true,
       .costs = {.free = 15}});  // two to acquire and one to release, at each of five
  return true;
}();

}  // namespace
}  // namespace dlock::contract
