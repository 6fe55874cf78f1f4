// SPDX-License-Identifier: Apache-2.0
#include "support/catalogue.hpp"
#include "support/postgres_server.hpp"

namespace dlock::test {
namespace {

class Postgresql final : ServerClock, public OneServer<PostgresServer> {
 public:
  explicit Postgresql(const StoreSetup& setup)
      : ServerClock(setup), OneServer(setup, server(setup, *this)) {}
  std::string url() const override { return url_of("postgres"); }
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
    all.push_back({"advisory", {}, {}, false});
    return all;
  }

 private:
  std::string url_of(const std::string& database) const {
    return fmt::format("postgresql://postgres@{}/{}", way_.host(), database);
  }
  static PostgresServer::Setup server(const StoreSetup& setup, const ServerClock& clock) {
    PostgresServer::give(clock.directory());
    return {.config = setup.config,
            .environment = clock.environment(),
            .on_disk = setup.durable,
            .as_installed = setup.as_installed};
  }
};

const bool postgresql_added = add_store<Postgresql>("postgresql", missing_postgres);

}  // namespace
}  // namespace dlock::test
