// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "support/etcd_server.hpp"

namespace dlock::contract {
namespace {

const bool etcd_added = [] {
  for (const Traits& traits : etcd::recipes)
    add({.name = "etcd/" + std::string{traits.recipe},
         .traits = &traits,
         // one server for all; a path for each
         .make_store =
             [&traits] {
               need_server(test::missing_etcd());
               return store_at(test::shared_etcd().url() + test::fresh_etcd_path(), etcd::factory,
                               traits);
             },
         .remembers = false,  // tokens rise without a record
         .ended_stay = false,
         .place_lasts = true,
         // etcd gives no lease for less than 2 s
         .real_time = true,
         .shortest_ttl = std::chrono::milliseconds{2000},
         .costs =
             traits.native ? Costs{.free = 3, .renewal = 2, .queued = 5.3, .wakes = 1.1} : Costs{},
         .messages = {{"/v3/kv/txn"}, "/v3/kv/txn", "request_delete_range", "ignore_lease"}});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
