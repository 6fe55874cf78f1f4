// SPDX-License-Identifier: Apache-2.0
// Throw-away MariaDB servers for tests: private directory (in memory where there is /dev/shm), private port, gone when the object or the test
// program is gone.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include "core/backend.hpp"
#include "mysql/connection.hpp"
#include "support/client.hpp"
#include "support/server.hpp"

namespace dlock::test {

inline constexpr std::string_view mariadbd = "mariadbd";
// Where Debian keeps it is not in everybody's PATH.
bool mariadb_installed();

class MariadbServer {
 public:
  struct Setup {
    std::vector<std::string> config{};       // lines of [mariadbd], after the usual ones
    std::vector<std::string> environment{};  // "LD_PRELOAD=..."
    bool on_disk = false;                    // and every commit waits for it
    std::string directory{};                 // given: it is used, and stays
    std::string data_of{};                   // another server's directory, whose data are copied before it starts
    std::vector<std::string> arguments{};    // of the next start only
    std::string user{};                      // root becomes this one
    bool wait_ready = true;
  };
  explicit MariadbServer(Setup setup);
  MariadbServer() : MariadbServer(Setup{}) {}
  ~MariadbServer();
  MariadbServer(const MariadbServer&) = delete;
  MariadbServer& operator=(const MariadbServer&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  std::string socket() const { return directory() + "/s"; }
  const std::string& directory() const noexcept { return own_ ? own_->path() : setup_.directory; }
  pid_t pid() const noexcept { return pid_; }
  std::string url(std::string_view database) const;  // root over TCP; no password

  void kill();   // SIGKILL, reaped
  void start();  // again, same place
  void restart() { kill(), start(); }
  void freeze();  // SIGSTOP, and it has stopped
  void thaw();
  void wait_ready();

  // One statement as root over the unix socket; throws when it fails.
  mysql::Answer sql(std::string_view statement);
  std::string value(std::string_view statement);  // first column of the first row

 private:
  Setup setup_;
  std::unique_ptr<TestDirectory> own_;
  std::uint16_t port_;
  pid_t pid_ = -1;
  std::unique_ptr<mysql::Connection> admin_;
};

// A database of its own, on the server that ctest started for all ($DLOCK_TEST_MARIADB: its directory) or else on one of this program's.
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
  mysql::Answer sql(std::string_view statement);
  std::string value(std::string_view statement);

 private:
  void create();
  mysql::Options options_;
  std::uint16_t port_ = 0;
  std::string name_;
  std::unique_ptr<mysql::Connection> admin_;
};

// Throws with the message of the error.
std::unique_ptr<Backend> open_mysql(const std::string& url, const Settings& settings = {}, std::string_view recipe = "lease");
std::unique_ptr<mysql::Connection> connect_as_root(const std::string& socket, const std::string& database = "");

}  // namespace dlock::test
