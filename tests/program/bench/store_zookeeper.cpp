// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "bench_run.hpp"
#include "support/zookeeper_client.hpp"

namespace dlock::test {
namespace {

class Zookeeper final : public Store {
 public:
  Zookeeper() { raw().make_all(root_); }
  const BackendFactory& factory() const override { return zookeeper::factory; }
  std::string url(const std::string& prefix) const override {
    return shared_zookeeper().url() + root_ + (prefix.empty() ? "" : "?prefix=" + prefix);
  }
  void plant() override {
    for (const char* name :
         {"/b", "/b/-0-handoff", "/b0-handoff", "/0-handoff", "/c-0-handoff", "/dlock/k"})
      raw().make_all(root_ + name);
    raw().make(root_ + "/b0-handoff/_c_0123456789abcdef0123456789abcdef-__WRIT__0000000000",
               "of others", false);
  }
  std::vector<std::string> everything() override {
    std::vector<std::string> all;
    RawZookeeper now = raw();
    walk(now, root_, all);
    return all;
  }
  // A new session each time: nobody keeps one alive while a benchmark runs.
  static RawZookeeper raw() {
    return RawZookeeper{shared_zookeeper().url(), std::chrono::seconds{60}};
  }
  const std::string& root() const { return root_; }

 private:
  static void walk(RawZookeeper& raw, const std::string& path, std::vector<std::string>& all) {
    const zookeeper::Reply r = raw.get(path);
    all.push_back(fmt::format("{} {} {}", path, r.stat.czxid, r.text));
    auto names = raw.children(path);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) walk(raw, path + "/" + name, all);
  }

  const std::string root_ = fresh_chroot();
};

}  // namespace

TEST_CASE("a foreign node in the directory of a key stays, and bench reports it") {
  Zookeeper store;
  Dlock run(bench(store, {"--scenario", "handoff", "-d", "1h", "-P", "20ms"}));
  run.progress(" handoff  ");
  // The directory is removed whenever nobody is in it.
  const std::string data = store.root() + "/b-0-handoff/data";
  CHECK(becomes([&] {
    store.raw().make_all(data);
    return store.raw().get(data).rc == 0;
  }));
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
