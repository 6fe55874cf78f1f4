// SPDX-License-Identifier: Apache-2.0
#include "contract/subject.hpp"
#include "support/etcd_server.hpp"

namespace dlock::contract {
namespace {

// One server for all cases of a run; each has its own path.
class EtcdStore final : public Store {
 public:
  explicit EtcdStore(const Traits& traits)
      : recipe_(traits.recipe), url_(test::shared_etcd().url() + test::fresh_etcd_path()) {}
  std::unique_ptr<Backend> open(const Settings& s) override {
    return test::open_etcd(url_, s, recipe_);
  }

 private:
  std::string recipe_, url_;
};

const bool etcd_added = [] {
  for (const Traits& traits : etcd::recipes)
    add({.name = "etcd/" + std::string{traits.recipe},
         .traits = &traits,
         .make_store = [&traits]() -> std::unique_ptr<Store> {
           if (!test::installed(test::etcd_program))
             skip_without("etcd", test::without(test::etcd_program));
           return std::make_unique<EtcdStore>(traits);
         },
         .remembers = false,  // tokens rise without a record
         .ended_stay = false,
         .place_lasts = true,
         // etcd gives no lease for less than 2 s
         .shortest_ttl = std::chrono::milliseconds{2000}});
  return true;
}();

}  // namespace
}  // namespace dlock::contract
