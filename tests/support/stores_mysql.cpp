// SPDX-License-Identifier: Apache-2.0
#include "support/catalogue.hpp"
#include "support/mariadb_server.hpp"

namespace dlock::test {
namespace {

class Mysql final : ServerClock, public OneServer<MariadbServer> {
 public:
  explicit Mysql(const StoreSetup& setup)
      : ServerClock(setup),
        OneServer(
            setup,
            {.config = setup.config, .environment = environment(), .on_disk = setup.durable}) {}
  std::string url() const override { return url_of(db_.name()); }
  std::string fresh(const std::string& name) override {
    server_.sql("CREATE DATABASE " + name);
    return url_of(name);
  }
  void step_clock(std::chrono::seconds by) override { step(by); }
  std::string tell(const std::vector<std::string>& words) override {
    return lines(server_.sql(words.at(0)));
  }
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
  Database db_{server_};
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
