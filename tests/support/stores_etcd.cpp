// SPDX-License-Identifier: Apache-2.0
#include "support/catalogue.hpp"
#include "support/etcd_server.hpp"

namespace dlock::test {
namespace {

// With the settings of Debian's package.
class Etcd final : public Store {
 public:
  explicit Etcd(const StoreSetup& setup)
      : cluster_({.members = setup.servers,
                  .durable = setup.durable || setup.as_installed,
                  .flags = setup.config}),
        way_(setup, cluster_.port()) {}
  std::string url() const override {
    return way_.proxies().empty() ? cluster_.url() : "etcd://" + way_.host();
  }
  std::string fresh(const std::string& name) override { return url() + "/" + name; }
  void freeze() override {
    for (std::size_t i = 0; i < cluster_.size(); ++i) cluster_.freeze(i);
  }
  void thaw() override {
    for (std::size_t i = 0; i < cluster_.size(); ++i) cluster_.thaw(i);
  }
  void restart() override {  // the leader
    const std::size_t leader = cluster_.leader();
    cluster_.kill(leader);
    cluster_.start(leader);
  }
  pid_t pid() const override { return cluster_.pid(); }
  std::string tell(const std::vector<std::string>& words) override {
    return cluster_.etcdctl(words);
  }
  std::vector<Proxy*> proxies() override { return way_.proxies(); }
  std::string request_text() const override { return "/v3/kv/txn"; }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all = queue_kinds("queue");
    all.push_back({"concurrency", {}, {}});
    return all;
  }

 private:
  EtcdServer cluster_;
  Way way_;
};

const bool etcd_added = add_store<Etcd>("etcd", missing_etcd);

}  // namespace
}  // namespace dlock::test
