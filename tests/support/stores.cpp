// SPDX-License-Identifier: Apache-2.0
#include "support/stores.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <filesystem>
#include "support/clock_file.hpp"
#include "support/etcd_server.hpp"
#include "support/mariadb_server.hpp"
#include "support/postgres_server.hpp"
#include "support/process.hpp"
#include "support/redis_groups.hpp"
#include "support/redlock_masters.hpp"
#include "support/zookeeper_server.hpp"
#include "util/fd.hpp"

namespace dlock::test {
namespace {

// Readers and permits of a recipe that keeps a queue: writers behind readers, readers behind a
// writer (which are granted together, so in no order), permits.
void add_queue(std::vector<Kind>& to, const std::string& recipe) {
  to.push_back({recipe, {}, {}});
  to.push_back({recipe, {"-s"}, {}});
  to.push_back({recipe, {}, {"-s"}, false});
  to.push_back({recipe, {"--limit", "1"}, {"--limit", "1"}});
}

// The server at `port`, or a proxy in front of it.
class Way {
 public:
  Way(const StoreSetup& setup, std::uint16_t port) : port_(port) {
    if (setup.proxied) proxy_ = std::make_unique<Proxy>(port);
  }
  std::string host() const { return fmt::format("127.0.0.1:{}", proxy_ ? proxy_->port() : port_); }
  std::vector<Proxy*> proxies() const { return {proxy_.get()}; }

 private:
  const std::uint16_t port_;
  std::unique_ptr<Proxy> proxy_;
};

std::vector<std::string> shifted(const StoreSetup& setup, const ClockFile& clock) {
  if (!setup.movable_clock) return {};
  return {"LD_PRELOAD=" CLOCK_SHIFT, "CLOCK_SHIFT_FILE=" + clock.path()};
}

class File final : public Store {
 public:
  explicit File(const StoreSetup&) {}
  std::string url() const override { return "file:" + dir_.path(); }
  // Another process is in the middle of a change and does not come to its end. What is locked for
  // changes is in directories; beside them are the files that recipe flock holds locked.
  void freeze() override {
    const std::filesystem::recursive_directory_iterator end;
    for (std::filesystem::recursive_directory_iterator i(dir_.path()); i != end; ++i)
      if (i->is_regular_file() && i.depth() > 0) {
        held_.emplace_back(::open(i->path().c_str(), O_RDWR | O_CLOEXEC));
        while (::flock(held_.back().get(), LOCK_EX) != 0) {}
      }
  }
  void thaw() override { held_.clear(); }
  void restart() override {}  // there is no server
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "lease");
    all.push_back({"flock", {}, {}, false});
    all.push_back({"flock", {}, {"-s"}, false});
    return all;
  }

 private:
  TestDirectory dir_;
  std::vector<Fd> held_;
};

std::vector<std::string> redis_config(const StoreSetup& setup) {
  if (setup.as_installed) return {"save 3600 1 300 100 60 10000", "appendonly no"};  // as Debian's
  if (setup.durable) return {"save \"\"", "appendonly yes", "appendfsync always"};
  return {"save \"\"", "appendonly no"};
}

class Redis final : public Store {
 public:
  explicit Redis(const StoreSetup& setup)
      : items_(setup.items),
        server_({.config = redis_config(setup), .movable_clock = setup.movable_clock}),
        way_(setup, server_.port()) {}
  std::string url() const override { return "redis://" + way_.host() + items_; }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void restart() override { server_.restart(); }
  void flush() override { server_.command({"FLUSHALL"}); }
  void step_clock(std::chrono::seconds by) override { server_.step_clock(by); }
  std::vector<Proxy*> proxies() override { return way_.proxies(); }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "fair");
    all.push_back({"set", {}, {}, false});
    return all;
  }

 private:
  const std::string items_;
  RedisServer server_;
  Way way_;
};

// Of a group of Redis servers.
std::vector<Kind> fair_alone() { return {{"fair", {}, {}}}; }

class Sentinel final : public Store {
 public:
  explicit Sentinel(const StoreSetup&) {}
  std::string url() const override { return group_.url(""); }
  void freeze() override {
    for (const auto& s : group_.servers) s->freeze();
  }
  void thaw() override {
    for (const auto& s : group_.servers) s->thaw();
  }
  void restart() override { fail_over(); }
  void fail_over() override {
    const auto old = group_.master_port();
    group_.master().kill();
    group_.wait_new_master(old);
  }
  std::vector<Kind> kinds() const override { return fair_alone(); }

 private:
  SentinelGroup group_;
};

class Cluster final : public Store {
 public:
  explicit Cluster(const StoreSetup&) {}
  std::string url() const override { return group_.url(""); }
  void freeze() override {
    for (const auto& s : group_.servers) s->freeze();
  }
  void thaw() override {
    for (const auto& s : group_.servers) s->thaw();
  }
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
  std::vector<Kind> kinds() const override { return fair_alone(); }

 private:
  ClusterGroup group_;
};

class Redlock final : public Store {
 public:
  explicit Redlock(const StoreSetup& setup) : setup_(setup), masters_(masters(setup)) {}
  std::string url() const override {
    return setup_.proxied ? masters_.proxied_url(setup_.items) : masters_.url(setup_.items);
  }
  void freeze() override {
    for (std::size_t i = 0; i < setup_.harmed; ++i) masters_.servers[i]->freeze();
  }
  void thaw() override {
    for (std::size_t i = 0; i < setup_.harmed; ++i) masters_.servers[i]->thaw();
  }
  void restart() override { masters_.servers[next_++ % masters_.size()]->restart(); }
  void flush() override {
    for (const std::size_t i : {0, 1}) masters_.servers[i]->command({"FLUSHALL"});
  }
  void step_clock(std::chrono::seconds by) override {
    for (std::size_t i = 0; i < setup_.harmed; ++i) masters_.servers[i]->step_clock(by);
  }
  std::vector<Proxy*> proxies() override {
    std::vector<Proxy*> all;
    for (const auto& p : masters_.proxies) all.push_back(p.get());
    return all;
  }
  std::vector<Kind> kinds() const override { return {{"redlock", {}, {}, false}}; }

 private:
  static RedlockMasters::Setup masters(const StoreSetup& setup) {
    RedlockMasters::Setup s{.count = setup.servers, .proxied = setup.proxied};
    if (!setup.as_installed) s.config = redis_config(setup);
    if (setup.movable_clock) s.uptime = std::chrono::hours{2};
    return s;
  }
  const StoreSetup setup_;
  RedlockMasters masters_;
  std::size_t next_ = 0;
};

class Zookeeper final : public Store {
 public:
  explicit Zookeeper(const StoreSetup& setup) : way_(setup, server_.port()) {}
  std::string url() const override { return "zookeeper://" + way_.host(); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void restart() override {
    server_.kill();
    server_.start();
  }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "sequential");
    all.push_back({"curator", {}, {}});
    all.push_back({"kazoo", {}, {}});
    all.push_back({"ephemeral", {}, {}, false});
    return all;
  }
  int least_ttl() const override { return 4; }  // two ticks
  std::vector<Proxy*> proxies() override { return way_.proxies(); }

 private:
  ZookeeperServer server_{ZookeeperServer::Setup{.tick = std::chrono::milliseconds{2000}}};
  Way way_;
};

class Mysql final : public Store {
 public:
  explicit Mysql(const StoreSetup& setup)
      : server_({.environment = shifted(setup, clock_), .on_disk = setup.durable}),
        way_(setup, server_.port()) {}
  std::string url() const override {
    return fmt::format("mysql://root@{}/{}", way_.host(), db_.name());
  }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void restart() override { server_.restart(); }
  void step_clock(std::chrono::seconds by) override { clock_.step_wall(by); }
  std::vector<Proxy*> proxies() override { return way_.proxies(); }
  std::string request_text() const override { return "dlock_"; }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "lease");
    for (const char* recipe : {"for-update", "get-lock", "insert", "version"})
      all.push_back({recipe, {}, {}, false});
    return all;
  }

 private:
  ClockFile clock_;
  MariadbServer server_;
  Database db_{server_};
  Way way_;
};

// With the settings of Debian's package.
class Etcd final : public Store {
 public:
  explicit Etcd(const StoreSetup& setup)
      : cluster_({.members = setup.servers,
                  .durable = setup.durable || setup.as_installed,
                  .flags = {}}) {
    const std::string host = cluster_.host();
    if (setup.proxied)
      proxy_ = std::make_unique<Proxy>(
          static_cast<std::uint16_t>(std::stoi(host.substr(host.rfind(':') + 1))));
  }
  std::string url() const override {
    return proxy_ ? fmt::format("etcd://127.0.0.1:{}", proxy_->port()) : cluster_.url();
  }
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
  std::vector<Proxy*> proxies() override { return {proxy_.get()}; }
  std::string request_text() const override { return "/v3/kv/txn"; }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "queue");
    all.push_back({"concurrency", {}, {}});
    return all;
  }

 private:
  EtcdServer cluster_;
  std::unique_ptr<Proxy> proxy_;
};

class Postgresql final : public Store {
 public:
  explicit Postgresql(const StoreSetup& setup)
      : server_(server(setup, clock_)), way_(setup, server_.port()) {}
  std::string url() const override { return "postgresql://postgres@" + way_.host() + "/postgres"; }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void restart() override { server_.restart(); }
  void step_clock(std::chrono::seconds by) override { clock_.step_wall(by); }
  std::vector<Proxy*> proxies() override { return way_.proxies(); }
  std::string request_text() const override { return "dlock_"; }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "lease");
    all.push_back({"advisory", {}, {}, false});
    return all;
  }

 private:
  static PostgresServer::Setup server(const StoreSetup& setup, const ClockFile& clock) {
    PostgresServer::give(clock.directory());
    return {.environment = shifted(setup, clock),
            .on_disk = setup.durable,
            .as_installed = setup.as_installed};
  }
  ClockFile clock_;
  PostgresServer server_;
  Way way_;
};

}  // namespace

std::string Kind::name() const {
  if (holds.empty() && waits.empty()) return recipe;
  const auto mode = [](const std::vector<std::string>& options) {
    return options.empty() ? "exclusive" : fmt::format("{}", fmt::join(options, " "));
  };
  return fmt::format("{} {}, {}", recipe, mode(holds), mode(waits));
}

void Store::flush() { give_up("this store is not flushed"); }
void Store::fail_over() { give_up("this store has no replica"); }
void Store::step_clock(std::chrono::seconds) { give_up("this store's clock stays"); }
void Store::move(const std::string&, const std::function<void()>&) {
  give_up("this store has no slots");
}

namespace {

struct Named {
  std::string_view name;
  bool (*installed)();
  std::unique_ptr<Store> (*make)(const StoreSetup&);
};

template <class T>
std::unique_ptr<Store> make(const StoreSetup& setup) {
  return std::make_unique<T>(setup);
}

bool always() { return true; }
bool etcd_installed() { return installed(etcd_program); }
bool redis_installed() { return installed("redis-server"); }

const Named& named(std::string_view name) {
  static const Named all[]{{"file", always, make<File>},
                           {"redis", redis_installed, make<Redis>},
                           {"sentinel", redis_installed, make<Sentinel>},
                           {"cluster", redis_installed, make<Cluster>},
                           {"redlock", redis_installed, make<Redlock>},
                           {"zookeeper", zookeeper_installed, make<Zookeeper>},
                           {"mysql", mariadb_installed, make<Mysql>},
                           {"postgresql", postgres_installed, make<Postgresql>},
                           {"etcd", etcd_installed, make<Etcd>}};
  for (const Named& n : all)
    if (n.name == name) return n;
  give_up(std::string{name} + ": no such store");
}

}  // namespace

bool is_installed(const std::string& name) { return named(name).installed(); }
std::unique_ptr<Store> make_store(const std::string& name, const StoreSetup& setup) {
  return named(name).make(setup);
}

}  // namespace dlock::test
