// SPDX-License-Identifier: Apache-2.0
// Throw-away MariaDB servers for tests: private directory (in memory if there is a /dev/shm),
// private port; they end with the object or the test program.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include "mysql/client/connection.hpp"
#include "store/factory.hpp"
#include "support/client.hpp"
#include "support/server.hpp"

namespace dlock::test {

// What is not installed; nullptr: nothing. Debian installs it in a directory that is not in every
// user's PATH.
const char* missing_mariadb();

class MariadbServer {
 public:
  struct Setup {
    std::vector<std::string> config{};       // lines of [mariadbd], after the usual ones
    std::vector<std::string> environment{};  // "LD_PRELOAD=..."
    bool on_disk = false;                    // on disk, with a sync at every commit
    std::string data_of{};                   // another server's directory, copied before the start
    std::vector<std::string> arguments{};    // of the next start only
    std::string user{};                      // run as this user if root
    bool wait_ready = true;
  };
  explicit MariadbServer(Setup setup);
  MariadbServer() : MariadbServer(Setup{}) {}
  MariadbServer(const MariadbServer&) = delete;
  MariadbServer& operator=(const MariadbServer&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  std::string socket() const { return directory() + "/s"; }
  const std::string& directory() const noexcept { return directory_.path(); }
  pid_t pid() const noexcept { return process_.pid(); }
  std::string url(std::string_view database) const;  // root over TCP; no password

  void kill();   // SIGKILL, reaped
  void start();  // again, with the same data
  void restart() { kill(), start(); }
  void freeze() { process_.freeze(); }
  void thaw() { process_.thaw(); }
  void wait_ready();

  // One statement as root over the unix socket; throws when it fails.
  SqlRows sql(std::string_view statement);
  std::string value(std::string_view statement);  // first column of the first row

 private:
  Setup setup_;
  TestDirectory directory_;
  std::uint16_t port_;
  ServerProcess process_;
  std::unique_ptr<mysql::Connection> admin_;
};

// A private database, on the server that ctest started for all tests (the file $DLOCK_TEST_MYSQL
// has its URL) or else on one of this program's.
class Database {
 public:
  Database();
  explicit Database(MariadbServer&);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& name() const noexcept { return name_; }
  std::string url() const;  // mysql://root@127.0.0.1:PORT/NAME
  std::uint16_t port() const noexcept { return port_; }
  SqlRows sql(std::string_view statement);
  std::string value(std::string_view statement);

 private:
  void create();
  mysql::Options options_;
  std::uint16_t port_ = 0;
  std::string name_;
  std::unique_ptr<mysql::Connection> admin_;
};

// Throws with the message of the error.
std::unique_ptr<Backend> open_mysql(const std::string& url, const Settings& settings = {},
                                    std::string_view recipe = "lease");
std::unique_ptr<mysql::Connection> connect_as_root(const std::string& socket,
                                                   const std::string& database = "");

}  // namespace dlock::test
