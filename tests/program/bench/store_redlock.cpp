// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "store.hpp"
#include "support/redlock_masters.hpp"

namespace dlock::test {
namespace {

class Redlock final : public Store {
 public:
  const BackendFactory& factory() const override { return redlock::factory; }
  std::string url(const std::string& prefix) const override {
    return masters_.url(prefix.empty() ? "?restart_grace=0" : "?restart_grace=0&prefix=" + prefix);
  }
  void plant() override {
    for (const auto& master : masters_.servers)
      for (const char* name : {"b", "b0-handoff", "0-handoff", "dlock:redlock:b",
                               "dlock:redlock:0-handoff", "dlock:redlock-wake:b0-handoff"})
        master->command({"SET", name, "of others"});
  }
  std::vector<std::string> everything() override {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < masters_.size(); ++i)
      for (const redis::Reply& key : masters_.servers[i]->command({"KEYS", "*"}).items)
        all.push_back(fmt::format("{} {} {}", i, key.text,
                                  masters_.servers[i]->command({"DUMP", key.text}).text));
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  RedlockMasters masters_{RedlockMasters::Setup{.count = 3}};
};

}  // namespace

std::unique_ptr<Store> make_store() { return std::make_unique<Redlock>(); }

}  // namespace dlock::test
