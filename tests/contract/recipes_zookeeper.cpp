// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "support/zookeeper_client.hpp"

namespace dlock::contract {
namespace {

const bool zookeeper_added = [] {
  for (const Traits& traits : zookeeper::recipes)
    add({.name = "zookeeper/" + std::string{traits.recipe},
         .traits = &traits,
         // one server for all; a chroot for each, which does not exist before its first lock
         .make_store =
             [&traits] {
               need_server(test::missing_zookeeper());
               return store_at(test::shared_zookeeper().url() + test::fresh_chroot() +
                                   (traits.native ? "" : "?prefix=locks/"),  // listing needs one
                               zookeeper::factory, traits);
             },
         .owner_across_backends = false,  // a node belongs to a session
         .remembers = false,              // tokens rise without a record, so nothing is kept
         .real_time = true,
         .shortest_ttl = std::chrono::milliseconds{500},
         // free: create, list, the watch for a forced release, delete
         .costs = traits.native ? Costs{.free = 4, .queued = 8, .wakes = 1.1, .permit_wakes = 4}
                                : Costs{},
         .messages = {.grants = {"dlock1"}, .release = traits.native ? "__WRIT__" : ""}});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
