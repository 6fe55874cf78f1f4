// SPDX-License-Identifier: Apache-2.0
#include "stores.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <filesystem>
#include <optional>
#include "support/mariadb_server.hpp"
#include "support/redlock_masters.hpp"
#include "support/zookeeper_server.hpp"
#include "util/fd.hpp"

namespace dlock::test {
namespace {

// A process stopped in the middle of a change, with the state locked.
class File final : public SilentStore {
 public:
  std::string url() const override { return "file:" + dir_.path(); }
  void freeze() override {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path()))
      if (entry.is_regular_file()) {
        held_.emplace_back(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
        while (::flock(held_.back().get(), LOCK_EX) != 0) {}
      }
  }
  void thaw() override { held_.clear(); }

 private:
  TestDirectory dir_;
  std::vector<Fd> held_;
};

class Redis final : public SilentStore {
 public:
  explicit Redis(std::string recipe) : recipe_(std::move(recipe)) {}
  std::string url() const override {
    return fmt::format("{}?restart_grace=0&recipe={}", server_.url(), recipe_);
  }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }

 private:
  const std::string recipe_;
  RedisServer server_;
};

class Redlock final : public SilentStore {
 public:
  std::string url() const override { return masters_.url(); }
  void freeze() override {
    for (const auto& server : masters_.servers) server->freeze();
  }
  void thaw() override {
    for (const auto& server : masters_.servers) server->thaw();
  }

 private:
  RedlockMasters masters_{RedlockMasters::Setup{.count = 3}};
};

class Zookeeper final : public SilentStore {
 public:
  std::string url() const override { return server_.url(); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }

 private:
  ZookeeperServer server_{
      ZookeeperServer::Setup{.tick = std::chrono::milliseconds{2000}, .durable = false}};
};

class Mysql final : public SilentStore {
 public:
  explicit Mysql(std::string recipe) : recipe_(std::move(recipe)) {}
  std::string url() const override { return db_.url() + "?recipe=" + recipe_; }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }

 private:
  const std::string recipe_;
  MariadbServer server_;
  Database db_{server_};
};

}  // namespace

std::vector<std::string> store_names() {
  return {"file", "redis", "redis-set", "redlock", "zookeeper", "mysql", "get-lock"};
}

std::unique_ptr<SilentStore> make_store(const std::string& name) {
  if (name == "file") return std::make_unique<File>();
  if (name.starts_with("red") && !installed("redis-server")) return nullptr;
  if (name == "redis") return std::make_unique<Redis>("fair");
  if (name == "redis-set") return std::make_unique<Redis>("set");
  if (name == "redlock") return std::make_unique<Redlock>();
  if (name == "zookeeper") return zookeeper_installed() ? std::make_unique<Zookeeper>() : nullptr;
  if (!mariadb_installed()) return nullptr;
  return std::make_unique<Mysql>(name == "mysql" ? "lease" : name);
}

}  // namespace dlock::test
