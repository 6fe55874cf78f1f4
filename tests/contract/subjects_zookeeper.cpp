// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "support/zookeeper_client.hpp"

namespace dlock::contract {
namespace {

// One server for all cases of a run; each has its own chroot, which does not exist before its first
// lock.
class ZookeeperStore final : public Store {
 public:
  explicit ZookeeperStore(const Traits& traits)
      : recipe_(traits.recipe), url_(test::shared_zookeeper().url() + test::fresh_chroot()) {
    if (!traits.native) url_ += "?prefix=locks/";  // listing needs one
  }
  std::unique_ptr<Backend> open(const Settings& s) override {
    return test::open_zookeeper(url_, s, recipe_);
  }

 private:
  std::string recipe_, url_;
};

const bool zookeeper_added = [] {
  for (const Traits& traits : zookeeper::recipes)
    add({.name = "zookeeper/" + std::string{traits.recipe},
         .traits = &traits,
         .make_store = [&traits]() -> std::unique_ptr<Store> {
           if (!test::zookeeper_installed()) skip_without("ZooKeeper", test::without_zookeeper());
           return std::make_unique<ZookeeperStore>(traits);
         },
         .owner_across_backends = false,  // a node belongs to a session
         .remembers = false,              // tokens rise without a record, so nothing is kept
         .shortest_ttl = std::chrono::milliseconds{500}});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
