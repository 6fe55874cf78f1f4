// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "store.hpp"
#include "support/redis_client.hpp"

namespace dlock::test {
namespace {

class Redis final : public Store {
 public:
  const BackendFactory& factory() const override { return redis::factory; }
  std::string url(const std::string& prefix) const override {
    return fmt::format("{}?restart_grace=0{}{}", server_.url(), prefix.empty() ? "" : "&prefix=", prefix);
  }
  void plant() override {
    for (const char* name : {"b", "b0-handoff", "0-handoff", "{b-0-handoff}", "dlock:fence:{b}b", "c-{0-handoff}:fence", "dlock:{k}:fence"})
      server_.command({"SET", name, "of others"});
  }
  std::vector<std::string> everything() override {
    std::vector<std::string> all;
    for (const Reply& key : server_.command({"KEYS", "*"}).items)
      all.push_back(key.text + " " + server_.command({"DUMP", key.text}).text);
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  RedisServer server_;
};

}  // namespace

std::unique_ptr<Store> make_store() { return std::make_unique<Redis>(); }

}  // namespace dlock::test
