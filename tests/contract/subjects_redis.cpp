// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include "contract/subject.hpp"
#include "redis/redis_backend.hpp"
#include "support/redis_client.hpp"

namespace dlock::contract {
namespace {

class RedisStore final : public Store {
 public:
  explicit RedisStore(std::string recipe) : recipe_(std::move(recipe)) {}
  std::unique_ptr<Backend> open(const Settings& s) override {
    return test::open_redis(server_.url() + "?restart_grace=0", s, recipe_);
  }

 private:
  std::string recipe_;
  test::RedisServer server_;
};

const bool added = [] {
  for (const Traits& traits : redis::recipes)
    add({.name = "redis/" + std::string{traits.recipe}, .traits = &traits, .make_store = [&traits]() -> std::unique_ptr<Store> {
           if (!test::installed("redis-server")) {
             if (test::without("redis-server") != test::skipped) std::exit(1);
             throw Skip{"redis-server is not installed"};
           }
           return std::make_unique<RedisStore>(std::string{traits.recipe});
         }});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
