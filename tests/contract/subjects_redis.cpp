// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "redis/factory.hpp"
#include "support/redis_client.hpp"

namespace dlock::contract {
namespace {

class RedisStore final : public Store {
 public:
  explicit RedisStore(const Traits& traits) : recipe_(traits.recipe) {
    if (!traits.native) items_ += "&prefix=locks:";  // listing needs one
    if (recipe_ == "getset") items_ += "&unit=ms";
  }
  std::unique_ptr<Backend> open(const Settings& s) override {
    return test::open_redis(server_.url() + items_, s, recipe_);
  }

 private:
  std::string recipe_, items_ = "?restart_grace=0";
  test::RedisServer server_;
};

const bool redis_added = [] {
  for (const Traits& traits : redis::recipes)
    add({.name = "redis/" + std::string{traits.recipe},
         .traits = &traits,
         .make_store = [&traits]() -> std::unique_ptr<Store> {
           if (!test::installed("redis-server"))
             skip_without("redis-server", test::without("redis-server"));
           return std::make_unique<RedisStore>(traits);
         }});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
