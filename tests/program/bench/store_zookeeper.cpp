// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "bench_run.hpp"
#include "support/zookeeper_client.hpp"

namespace dlock::test {
namespace {

class Zookeeper final : public Store {
 public:
  Zookeeper() { raw_.make_all(root_); }
  const BackendFactory& factory() const override { return zookeeper::factory; }
  std::string url(const std::string& prefix) const override {
    return shared_zookeeper().url() + root_ + (prefix.empty() ? "" : "?prefix=" + prefix);
  }
  void plant() override {
    for (const char* name :
         {"/b", "/b/-0-handoff", "/b0-handoff", "/0-handoff", "/c-0-handoff", "/dlock/k"})
      raw_.make_all(root_ + name);
    raw_.make(root_ + "/b0-handoff/_c_0123456789abcdef0123456789abcdef-__WRIT__", "of others", true,
              true);
  }
  std::vector<std::string> everything() override {
    std::vector<std::string> all;
    walk(root_, all);
    return all;
  }
  RawZookeeper& raw() { return raw_; }
  const std::string& root() const { return root_; }

 private:
  void walk(const std::string& path, std::vector<std::string>& all) {
    const zookeeper::Reply r = raw_.get(path);
    all.push_back(fmt::format("{} {} {}", path, r.stat.czxid, r.text));
    auto names = raw_.children(path);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) walk(path + "/" + name, all);
  }

  const std::string root_ = fresh_chroot();
  RawZookeeper raw_{shared_zookeeper().url(), std::chrono::seconds{60}};
};

}  // namespace

TEST_CASE("a foreign node in the directory of a key stays, and bench reports it") {
  Zookeeper store;
  Dlock run(bench(store, {"--scenario", "handoff", "-d", "60s", "-P", "20ms"}));
  run.progress(" handoff  ");
  store.raw().make(store.root() + "/b-0-handoff/data", "of others", false);
  run.signal(SIGINT);
  CHECK(run.end() == "signal 2 (INT)");
  CHECK(run.out.find("is still there: " + store.root() +
                     "/b-0-handoff has a node 'data' of another program in it") !=
        std::string::npos);
  CHECK(store.raw().children(store.root() + "/b-0-handoff") == std::vector<std::string>{"data"});
}

TEST_CASE("a node that is not ephemeral is not removed") {
  Zookeeper store;
  store.raw().make(store.root() + "/b-0-handoff", "of others", false);
  Dlock run(bench(store, {"--recipe", "ephemeral", "--scenario", "handoff", "-d", "100ms"}));
  CHECK(run.end() == "exit 64");
  CHECK(store.raw().get(store.root() + "/b-0-handoff").text == "of others");
}

std::unique_ptr<Store> make_store() { return std::make_unique<Zookeeper>(); }

}  // namespace dlock::test
