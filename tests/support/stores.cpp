// SPDX-License-Identifier: Apache-2.0
#include "support/stores.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <filesystem>
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

class File final : public Store {
 public:
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

class Redis final : public Store {
 public:
  std::string url() const override { return server_.url(); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void restart() override { server_.restart(); }
  void flush() override { server_.command({"FLUSHALL"}); }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "fair");
    all.push_back({"set", {}, {}, false});
    return all;
  }

 private:
  // as Debian's
  RedisServer server_{{.config = {"save 3600 1 300 100 60 10000", "appendonly no"}}};
};

// Of a group of Redis servers.
std::vector<Kind> fair_alone() { return {{"fair", {}, {}}}; }

class Sentinel final : public Store {
 public:
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
  std::string url() const override { return masters_.url(""); }
  void freeze() override {
    for (const auto& server : masters_.servers) server->freeze();
  }
  void thaw() override {
    for (const auto& server : masters_.servers) server->thaw();
  }
  void restart() override { masters_.servers.front()->restart(); }  // one of three
  void flush() override {
    for (const std::size_t i : {0, 1}) masters_.servers[i]->command({"FLUSHALL"});
  }
  std::vector<Kind> kinds() const override { return {{"redlock", {}, {}, false}}; }

 private:
  RedlockMasters masters_{RedlockMasters::Setup{.count = 3}};
};

class Zookeeper final : public Store {
 public:
  std::string url() const override { return server_.url(); }
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

 private:
  ZookeeperServer server_{ZookeeperServer::Setup{.tick = std::chrono::milliseconds{2000}}};
};

class Mysql final : public Store {
 public:
  std::string url() const override { return db_.url(); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void restart() override { server_.restart(); }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "lease");
    for (const char* recipe : {"for-update", "get-lock", "insert", "version"})
      all.push_back({recipe, {}, {}, false});
    return all;
  }

 private:
  MariadbServer server_;
  Database db_{server_};
};

// Three members, with the settings of Debian's package.
class Etcd final : public Store {
 public:
  std::string url() const override { return cluster_.url(); }
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
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "queue");
    all.push_back({"concurrency", {}, {}});
    return all;
  }

 private:
  EtcdServer cluster_{EtcdServer::Setup{.members = 3, .durable = true, .flags = {}}};
};

class Postgresql final : public Store {
 public:
  std::string url() const override { return server_.url(); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void restart() override { server_.restart(); }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all;
    add_queue(all, "lease");
    all.push_back({"advisory", {}, {}, false});
    return all;
  }

 private:
  PostgresServer server_{{.as_installed = true}};
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
void Store::move(const std::string&, const std::function<void()>&) {
  give_up("this store has no slots");
}

namespace {

struct Named {
  std::string_view name;
  bool (*installed)();
  std::unique_ptr<Store> (*make)();
};

template <class T>
std::unique_ptr<Store> make() {
  return std::make_unique<T>();
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
std::unique_ptr<Store> make_store(const std::string& name) { return named(name).make(); }

}  // namespace dlock::test
