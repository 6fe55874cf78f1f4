// SPDX-License-Identifier: Apache-2.0
#include "support/catalogue.hpp"
#include "support/mariadb_server.hpp"

namespace dlock::test {
namespace {

class Mysql final : public Store {
 public:
  explicit Mysql(const StoreSetup& setup)
      : clock_(setup),
        server_({.config = setup.config,
                 .environment = clock_.environment(),
                 .on_disk = setup.durable}),
        way_(setup, server_.port()) {}
  std::string url() const override { return url_of(db_.name()); }
  std::string fresh(const std::string& name) override {
    server_.sql("CREATE DATABASE " + name);
    return url_of(name);
  }
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void kill() override { server_.kill(); }
  void start() override { server_.start(); }
  void step_clock(std::chrono::seconds by) override { clock_.step(by); }
  pid_t pid() const override { return server_.pid(); }
  std::string tell(const std::vector<std::string>& words) override {
    return lines(server_.sql(words.at(0)));
  }
  std::vector<Proxy*> proxies() override { return way_.proxies(); }
  std::string request_text() const override { return "dlock_"; }
  std::vector<Kind> kinds() const override {
    std::vector<Kind> all = queue_kinds("lease");
    for (const char* recipe : {"for-update", "get-lock", "insert", "version"})
      all.push_back({recipe, {}, {}, false});
    return all;
  }

 private:
  std::string url_of(const std::string& database) const {
    return fmt::format("mysql://root@{}/{}", way_.host(), database);
  }
  ServerClock clock_;
  MariadbServer server_;
  Database db_{server_};
  Way way_;
};

class SharedMysql final : public Store {
 public:
  explicit SharedMysql(const StoreSetup&) {}
  std::string url() const override { return db_.url(); }

 private:
  Database db_;
};

const bool mysql_added = add_store<Mysql>("mysql", missing_mariadb) &&
                         add_store<SharedMysql>("mysql-shared", missing_mariadb);

}  // namespace
}  // namespace dlock::test
