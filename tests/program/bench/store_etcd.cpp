// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "bench_run.hpp"
#include "support/etcd_server.hpp"

namespace dlock::test {
namespace {

class Etcd final : public Store {
 public:
  const BackendFactory& factory() const override { return etcd::factory; }
  std::string url(const std::string& prefix) const override {
    return shared_etcd().url() + path_ + (prefix.empty() ? "" : "?prefix=" + prefix);
  }
  void plant() override {
    std::vector<etcd::Json> puts;
    for (const char* name : {"/b", "/b/-0-handoff", "/b0-handoff/1", "/0-handoff/1",
                             "/c-0-handoff/1", "/dlock/lock/k/1", "/dlock/last/k"})
      puts.push_back(etcd::put(path_ + name, "of others"));
    auto client = shared_etcd().client();
    client
        .txn("plant", etcd::transaction({}, std::move(puts), {}),
             Clock::now() + std::chrono::seconds{60})
        .value();
  }
  std::vector<std::string> everything() override {
    std::vector<std::string> all;
    auto client = shared_etcd().client();
    const auto found = client
                           .txn("look", etcd::transaction({}, {etcd::list(path_)}, {}),
                                Clock::now() + std::chrono::seconds{60})
                           .value();
    for (const etcd::KeyValue& kv : found.range(0))
      all.push_back(fmt::format("{} {} {}", kv.key, kv.created, kv.value));
    return all;
  }

 private:
  const std::string path_ = fresh_etcd_path();
};

}  // namespace

std::unique_ptr<Store> make_store() { return std::make_unique<Etcd>(); }

}  // namespace dlock::test
