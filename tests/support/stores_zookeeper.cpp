// SPDX-License-Identifier: Apache-2.0
#include "support/catalogue.hpp"
#include "support/zookeeper_server.hpp"

namespace dlock::test {
namespace {

class Zookeeper final : public OneServer<ZookeeperServer> {
 public:
  explicit Zookeeper(const StoreSetup& setup) : OneServer(setup, server(setup)) {}
  std::string url() const override { return "zookeeper://" + way_.host(); }
  std::string fresh(const std::string& name) override { return url() + "/" + name; }
  std::string tell(const std::vector<std::string>& words) override {
    return server_.word(words.at(0));
  }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all = queue_kinds("sequential");
    all.push_back({"curator", {}, {}});
    all.push_back({"kazoo", {}, {}});
    all.push_back({"ephemeral", {}, {}, false});
    return all;
  }
  int least_ttl() const override { return 4; }  // two ticks

 private:
  static ZookeeperServer::Setup server(const StoreSetup& setup) {
    ZookeeperServer::Setup s{.config = setup.config,
                             .tick = std::chrono::milliseconds{setup.as_installed ? 2000 : 100},
                             .durable = setup.as_installed || setup.durable};
    // leases of an hour, as other stores give them
    if (!setup.as_installed) s.config.emplace_back("maxSessionTimeout=7200000");
    return s;
  }
};

const bool zookeeper_added = add_store<Zookeeper>("zookeeper", missing_zookeeper);

}  // namespace
}  // namespace dlock::test
