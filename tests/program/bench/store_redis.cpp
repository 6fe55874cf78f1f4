// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include "bench_run.hpp"
#include "support/redis_client.hpp"

namespace dlock::test {
namespace {

class Redis final : public Store {
 public:
  const BackendFactory& factory() const override { return redis::factory; }
  std::string url(const std::string& prefix) const override {
    return fmt::format("{}?restart_grace=0{}{}", server_.url(),
                       prefix.empty() ? "" : "&prefix=", prefix);
  }
  void plant() override {
    for (const char* name : {"b", "b0-handoff", "0-handoff", "{b-0-handoff}", "dlock:fence:{b}b",
                             "c-{0-handoff}:fence", "dlock:{k}:fence"})
      server_.command({"SET", name, "of others"});
  }
  std::vector<std::string> everything() override {
    std::vector<std::string> all;
    for (const Reply& key : server_.command({"KEYS", "*"}).items)
      all.push_back(key.text + " " + server_.command({"DUMP", key.text}).text);
    std::sort(all.begin(), all.end());
    return all;
  }
  void kill() { server_.kill(); }

 private:
  RedisServer server_;
};

}  // namespace

TEST_CASE("a server that is gone at the end: bench reports the keys that stay") {
  for (const char* output : {"text", "csv"}) {
    Redis store;
    // At the usual times: who asks a server that is gone gives up after them.
    Dlock run({"bench", "-b", store.url(""), "--prefix", "b-", "-c", "3", "--scenario", "handoff",
               "-d", "1h", "-P", "20ms", "--output", output});
    run.progress(" handoff  ");
    store.kill();
    run.signal(SIGINT);
    CHECK(run.end() == "signal 2 (INT)");
    CHECK((run.out + run.said()).find("redis fair: what was written below 'b-' is still there: ") !=
          std::string::npos);
  }
}

std::unique_ptr<Store> make_store() { return std::make_unique<Redis>(); }

}  // namespace dlock::test
