// SPDX-License-Identifier: Apache-2.0
#include "target.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include "support/etcd_server.hpp"
#include "support/mariadb_server.hpp"
#include "support/postgres_server.hpp"
#include "support/redlock_masters.hpp"
#include "support/zookeeper_server.hpp"
#include "util/fd.hpp"

namespace dlock::runner {
namespace {

using test::Proxy;

bool is_one_of(Fault fault, std::initializer_list<Fault> these) {
  return std::find(these.begin(), these.end(), fault) != these.end();
}
bool needs_proxy(Fault f) {
  return is_one_of(f, {Fault::cut, Fault::lose_reply, Fault::delay, Fault::reset});
}
bool moves_clock(Fault f) {
  return is_one_of(f, {Fault::clock_ahead, Fault::clock_back, Fault::minority_clock});
}

class File final : public Target {
 public:
  std::string url() const override { return "file:" + directory_.path(); }

 private:
  test::TestDirectory directory_;
};

// Keeps every grant, as its operator says by restart_grace=0: in memory, and on disk where it is
// killed. For Fault::wipe it keeps nothing, and the grace is what protects.
test::RedisServer::Setup redis_setup(Fault fault) {
  test::RedisServer::Setup setup;
  if (fault == Fault::restart) setup.config = {"save \"\"", "appendonly yes", "appendfsync always"};
  else setup.config = {"save \"\"", "appendonly no"};
  setup.movable_clock = moves_clock(fault);
  return setup;
}
constexpr const char* grace_of(Fault fault) {
  return fault == Fault::wipe ? "?restart_grace=3s" : "?restart_grace=0";
}

class Redis final : public Target {
 public:
  explicit Redis(Fault fault) : grace_(grace_of(fault)), server_(redis_setup(fault)) {
    if (needs_proxy(fault)) proxy_ = std::make_unique<Proxy>(server_.port());
  }
  std::string url() const override {
    return fmt::format("redis://127.0.0.1:{}{}", proxy_ ? proxy_->port() : server_.port(), grace_);
  }
  void restart() override { server_.restart(); }
  void wipe() override { server_.restart(); }
  void flush() override { server_.command({"FLUSHALL"}); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void step_clock(std::chrono::seconds by) override { server_.step_clock(by); }
  std::vector<Proxy*> proxies() override { return {proxy_.get()}; }

 private:
  std::string grace_;
  test::RedisServer server_;
  std::unique_ptr<Proxy> proxy_;
};

// Five masters; one is restarted or wiped at a time, three are stopped or stepped, or two where the
// fault is that of a minority.
class Redlock final : public Target {
 public:
  explicit Redlock(Fault fault) : fault_(fault) {
    const auto setup = redis_setup(fault);
    test::RedlockMasters::Setup five{.config = setup.config, .proxied = needs_proxy(fault)};
    if (moves_clock(fault)) five.uptime = std::chrono::hours{2};
    masters_ = std::make_unique<test::RedlockMasters>(five);
  }
  std::string url() const override {
    const std::string items = grace_of(fault_);
    return needs_proxy(fault_) ? masters_->proxied_url(items) : masters_->url(items);
  }
  void restart() override { masters_->servers[next_++ % masters_->size()]->restart(); }
  void wipe() override { restart(); }
  void flush() override {
    for (std::size_t i = 0; i < some(); ++i) masters_->servers[i]->command({"FLUSHALL"});
  }
  void freeze() override {
    for (std::size_t i = 0; i < some(); ++i) masters_->servers[i]->freeze();
  }
  void thaw() override {
    for (std::size_t i = 0; i < some(); ++i) masters_->servers[i]->thaw();
  }
  void step_clock(std::chrono::seconds by) override {
    for (std::size_t i = 0; i < some(); ++i) masters_->servers[i]->step_clock(by);
  }
  std::vector<Proxy*> proxies() override {
    std::vector<Proxy*> all;
    for (const auto& p : masters_->proxies) all.push_back(p.get());
    return all;
  }

 private:
  std::size_t some() const {
    return is_one_of(fault_, {Fault::minority, Fault::minority_clock, Fault::flush}) ? 2 : 3;
  }
  Fault fault_;
  std::unique_ptr<test::RedlockMasters> masters_;
  std::size_t next_ = 0;
};

class Zookeeper final : public Target {
 public:
  explicit Zookeeper(Fault fault)
      : server_(test::ZookeeperServer::Setup{.tick = std::chrono::milliseconds{2000}}) {
    if (needs_proxy(fault)) proxy_ = std::make_unique<Proxy>(server_.port());
  }
  std::string url() const override {
    return fmt::format("zookeeper://127.0.0.1:{}", proxy_ ? proxy_->port() : server_.port());
  }
  void restart() override { server_.kill(), server_.start(); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  std::vector<Proxy*> proxies() override { return {proxy_.get()}; }

 private:
  test::ZookeeperServer server_;
  std::unique_ptr<Proxy> proxy_;
};

class Etcd final : public Target {
 public:
  explicit Etcd(Fault fault)
      : server_({.members = 1, .durable = fault == Fault::restart, .flags = {}}) {
    const std::string host = server_.host();
    if (needs_proxy(fault))
      proxy_ = std::make_unique<Proxy>(
          static_cast<std::uint16_t>(std::stoi(host.substr(host.rfind(':') + 1))));
  }
  std::string url() const override {
    return proxy_ ? fmt::format("etcd://127.0.0.1:{}", proxy_->port()) : server_.url();
  }
  void restart() override {
    server_.kill();
    server_.start();
  }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  std::vector<Proxy*> proxies() override { return {proxy_.get()}; }
  std::string request_text() const override { return "/v3/kv/txn"; }

 private:
  test::EtcdServer server_;
  std::unique_ptr<Proxy> proxy_;
};

// The first number of a file that shifts the clock of a server (tests/support/clock_shift.cpp).
class ClockFile {
 public:
  ClockFile() {
    const Fd fd{::open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    void* at = ::ftruncate(fd.get(), 4096) != 0
                   ? MAP_FAILED
                   : ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) throw std::runtime_error("cannot map " + path());
    shift_ = static_cast<volatile std::int64_t*>(at);
  }
  ~ClockFile() { ::munmap(const_cast<std::int64_t*>(shift_), 4096); }
  ClockFile(const ClockFile&) = delete;
  ClockFile& operator=(const ClockFile&) = delete;
  std::string path() const { return directory_.path() + "/shift"; }
  void step(std::chrono::nanoseconds by) { *shift_ = *shift_ + by.count(); }

 private:
  test::TestDirectory directory_;
  volatile std::int64_t* shift_ = nullptr;
};

class Mysql final : public Target {
 public:
  explicit Mysql(Fault fault) : server_(setup(fault, clock_)), database_(server_) {
    if (needs_proxy(fault)) proxy_ = std::make_unique<Proxy>(server_.port());
  }
  std::string url() const override {
    return fmt::format("mysql://root@127.0.0.1:{}/{}", proxy_ ? proxy_->port() : server_.port(),
                       database_.name());
  }
  void restart() override { server_.restart(); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void step_clock(std::chrono::seconds by) override { clock_.step(by); }
  std::vector<Proxy*> proxies() override { return {proxy_.get()}; }
  std::string request_text() const override { return "dlock_"; }

 private:
  static test::MariadbServer::Setup setup(Fault fault, const ClockFile& clock) {
    test::MariadbServer::Setup s;
    s.on_disk = fault == Fault::restart;  // else it would forget the last second
    if (moves_clock(fault))
      s.environment = {"LD_PRELOAD=" CLOCK_SHIFT, "CLOCK_SHIFT_FILE=" + clock.path()};
    return s;
  }
  ClockFile clock_;
  test::MariadbServer server_;
  test::Database database_;
  std::unique_ptr<Proxy> proxy_;
};

class Postgresql final : public Target {
 public:
  explicit Postgresql(Fault fault) : server_(setup(fault, clock_)) {
    if (needs_proxy(fault)) proxy_ = std::make_unique<Proxy>(server_.port());
  }
  std::string url() const override {
    return fmt::format("postgresql://postgres@127.0.0.1:{}/postgres",
                       proxy_ ? proxy_->port() : server_.port());
  }
  void restart() override { server_.restart(); }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void step_clock(std::chrono::seconds by) override { clock_.step(by); }
  std::vector<Proxy*> proxies() override { return {proxy_.get()}; }
  std::string request_text() const override { return "dlock_"; }

 private:
  static test::PostgresServer::Setup setup(Fault fault, const ClockFile& clock) {
    test::PostgresServer::Setup s;
    s.on_disk = fault == Fault::restart;  // else it would forget the last second
    test::PostgresServer::give(std::filesystem::path(clock.path()).parent_path());
    if (moves_clock(fault))
      s.environment = {"LD_PRELOAD=" CLOCK_SHIFT, "CLOCK_SHIFT_FILE=" + clock.path()};
    return s;
  }
  ClockFile clock_;
  test::PostgresServer server_;
  std::unique_ptr<Proxy> proxy_;
};

template <class T>
std::unique_ptr<Target> make(Fault fault) {
  if constexpr (std::is_constructible_v<T, Fault>) return std::make_unique<T>(fault);
  else return std::make_unique<T>();
}

bool always() { return true; }
bool etcd_installed() { return test::installed(test::etcd_program); }
bool redis_installed() { return test::installed("redis-server"); }

}  // namespace

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all{
      {"file-lease", "lease", 2, true, true, false, 300, make<File>, always},
      {"file-flock", "flock", 2, false, true, false, 250, make<File>, always},
      {"redis-fair", "fair", 2, true, false, false, 200, make<Redis>, redis_installed},
      {"redis-set", "set", 2, false, false, false, 150, make<Redis>, redis_installed},
      {"redlock", "redlock", 2, false, false, false, 30, make<Redlock>, redis_installed},
      {"zookeeper", "sequential", 4, true, false, false, 10, make<Zookeeper>,
       test::zookeeper_installed},
      {"etcd-queue", "queue", 4, true, false, false, 10, make<Etcd>, etcd_installed},
      {"mysql-lease", "lease", 2, true, false, false, 30, make<Mysql>, test::mariadb_installed},
      {"postgresql-lease", "lease", 2, true, false, false, 30, make<Postgresql>,
       test::postgres_installed},
      {"postgresql-advisory", "advisory", 2, false, false, true, 30, make<Postgresql>,
       test::postgres_installed},
      {"mysql-get-lock", "get-lock", 2, false, false, true, 30, make<Mysql>,
       test::mariadb_installed},
  };
  return all;
}

bool applies(const Recipe& r, Fault fault) {
  const bool file = r.attached, redlock = r.name == "redlock", zookeeper = r.name == "zookeeper",
             redis = r.name.starts_with("redis-"), mysql = r.name.starts_with("mysql-"),
             postgresql = r.name.starts_with("postgresql-");
  switch (fault) {
    case Fault::restart:
    case Fault::stop_short:
    case Fault::stop_long:
    case Fault::cut:
    case Fault::lose_reply:
    case Fault::delay:
    case Fault::reset: return !file;
    case Fault::wipe:
    case Fault::flush: return redis || redlock;
    case Fault::clock_ahead:
    case Fault::clock_back: return redis || redlock || mysql || postgresql;
    case Fault::minority:
    case Fault::minority_clock: return redlock;
    // sequential's queue and the lock are one; a node that is gone is found by the next test
    default: return !(zookeeper && is_one_of(fault, {Fault::clock_ahead, Fault::clock_back}));
  }
}

std::string_view not_covered(const Recipe& r, Fault fault) {
  switch (fault) {
    case Fault::kill_both: return "both are killed";
    case Fault::stop_both: return r.attached ? "" : "both are stopped until the lease ends";
    case Fault::freeze_all: return r.attached ? "" : "all are frozen past the end of a lease";
    case Fault::flush: return "what is deleted is forgotten at once";
    case Fault::remove:
      return r.name == "file-flock" ? "" : "release --force gives the lock away at once";
    case Fault::clock_ahead: return r.name == "mysql-get-lock" ? "" : "leases end early by as much";
    case Fault::restart:
    case Fault::cut:
    case Fault::lose_reply:
    case Fault::reset: return r.connection ? "the connection is closed, and the lock with it" : "";
    default: return "";
  }
}

}  // namespace dlock::runner
