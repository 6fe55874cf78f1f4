// SPDX-License-Identifier: Apache-2.0
#include "support/catalogue.hpp"
#include "support/redis_groups.hpp"
#include "support/redlock_masters.hpp"

namespace dlock::test {
namespace {

std::vector<std::string> config(const StoreSetup& setup) {
  std::vector<std::string> lines{"save \"\"", "appendonly no"};
  if (setup.as_installed) lines = {"save 3600 1 300 100 60 10000", "appendonly no"};  // as Debian's
  else if (setup.durable) lines = {"save \"\"", "appendonly yes", "appendfsync always"};
  lines.insert(lines.end(), setup.config.begin(), setup.config.end());
  return lines;
}

std::string tell(RedisServer& server, const std::vector<std::string>& words) {
  const std::vector<std::string_view> views(words.begin(), words.end());
  const Reply reply = server.command(views);
  if (reply.is(Reply::Type::integer)) return std::to_string(reply.integer);
  std::string text = reply.text;
  for (const Reply& item : reply.items) text += item.text + "\n";
  return text;
}

class Redis final : public OneServer<RedisServer> {
 public:
  explicit Redis(const StoreSetup& setup)
      : OneServer(setup, {.config = config(setup), .movable_clock = setup.movable_clock}),
        items_(setup.items) {}
  std::string url() const override { return "redis://" + way_.host() + items_; }
  std::string fresh(const std::string& name) override {
    return fmt::format("redis://{}/0?restart_grace=0&prefix={}:", way_.host(), name);
  }
  void wipe() override { server_.command({"FLUSHALL"}); }
  void step_clock(std::chrono::seconds by) override { server_.step_clock(by); }
  std::string tell(const std::vector<std::string>& words) override {
    return test::tell(server_, words);
  }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all = queue_kinds("fair");
    all.push_back({"set", {}, {}, false});
    return all;
  }

 private:
  const std::string items_;
};

// Redis servers that belong together.
template <class Servers>
class Group : public Store {
 public:
  explicit Group(const StoreSetup&) {}
  std::string url() const override { return group_.url(""); }
  void freeze() override {
    for (const auto& s : group_.servers) s->freeze();
  }
  void thaw() override {
    for (const auto& s : group_.servers) s->thaw();
  }
  std::vector<Kind> kinds() const override { return {{"fair", {}, {}}}; }

 protected:
  Servers group_;
};

class Sentinel final : public Group<SentinelGroup> {
 public:
  using Group::Group;
  void restart() override { fail_over(); }
  void fail_over() override {
    const auto old = group_.master_port();
    group_.master().kill();
    group_.wait_new_master(old);
  }
};

class Cluster final : public Group<ClusterGroup> {
 public:
  using Group::Group;
  void restart() override {
    for (const auto& s : group_.servers) s->restart();
  }
  void move(const std::string& key, const std::function<void()>& midway) override {
    const std::string base = "dlock:{" + key + "}:";
    Resharding slot{group_, base + "fence"};
    slot.move(base + "fence");
    midway();
    slot.move_all();
    slot.finish();
  }
};

class Redlock final : public Store {
 public:
  explicit Redlock(const StoreSetup& setup) : setup_(setup), masters_(masters(setup)) {}
  std::string url() const override { return url_with(setup_.items); }
  std::string fresh(const std::string& name) override {
    return url_with(fmt::format("/0?restart_grace=0&prefix={}:", name));
  }
  void freeze() override {
    for (std::size_t i = 0; i < setup_.harmed; ++i) masters_.servers[i]->freeze();
  }
  void thaw() override {
    for (std::size_t i = 0; i < setup_.harmed; ++i) masters_.servers[i]->thaw();
  }
  void restart() override { masters_.servers[next_++ % masters_.size()]->restart(); }
  void wipe() override {
    for (const std::size_t i : {0, 1}) masters_.servers[i]->command({"FLUSHALL"});
  }
  void step_clock(std::chrono::seconds by) override {
    for (std::size_t i = 0; i < setup_.harmed; ++i) masters_.servers[i]->step_clock(by);
  }
  pid_t pid() const override { return masters_.servers[0]->pid(); }
  std::string tell(const std::vector<std::string>& words) override {
    return test::tell(*masters_.servers[0], words);
  }
  std::vector<Proxy*> proxies() override {
    std::vector<Proxy*> all;
    for (const auto& p : masters_.proxies) all.push_back(p.get());
    return all;
  }
  std::vector<Kind> kinds() const override { return {{"redlock", {}, {}, false}}; }

 private:
  std::string url_with(const std::string& items) const {
    return setup_.proxied ? masters_.proxied_url(items) : masters_.url(items);
  }
  static RedlockMasters::Setup masters(const StoreSetup& setup) {
    RedlockMasters::Setup s{.count = setup.servers, .proxied = setup.proxied};
    s.config = setup.as_installed ? setup.config : config(setup);
    if (setup.movable_clock) s.uptime = std::chrono::hours{2};
    return s;
  }
  const StoreSetup setup_;
  RedlockMasters masters_;
  std::size_t next_ = 0;
};

const bool redis_added =
    add_store<Redis>("redis", missing_redis) && add_store<Sentinel>("sentinel", missing_redis) &&
    add_store<Cluster>("cluster", missing_redis) && add_store<Redlock>("redlock", missing_redis);

}  // namespace
}  // namespace dlock::test
