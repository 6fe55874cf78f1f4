// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "support/redlock_masters.hpp"

namespace dlock::contract {
namespace {

class RedlockStore final : public Store {
 public:
  std::unique_ptr<Backend> open(const Settings& s) override {
    return test::open_redlock(masters_.url("?restart_grace=0&prefix=locks:"), s);
  }

 private:
  test::RedlockMasters masters_;
};

const bool redlock_added = [] {
  add({.name = "redlock/redlock",
       .traits = &redlock::recipes[0],
       .make_store = []() -> std::unique_ptr<Store> {
         if (!test::installed("redis-server"))
           skip_without("redis-server", test::without("redis-server"));
         return std::make_unique<RedlockStore>();
       },
       // each undone attempt is followed by one with a new owner
       .owner_across_backends = false,
       .shortest_ttl = std::chrono::seconds{2}});  // a master has a twentieth of it to answer
  return true;
}();

}  // namespace
}  // namespace dlock::contract
