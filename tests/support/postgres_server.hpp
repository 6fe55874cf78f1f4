// SPDX-License-Identifier: Apache-2.0
// Throw-away PostgreSQL servers for tests: private directory (in memory if there is a /dev/shm),
// private port; they end with the object or the test program. Where the tests run as root the
// server runs as an unprivileged user, as it insists on.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include "postgresql/client/connection.hpp"
#include "store/factory.hpp"
#include "support/client.hpp"
#include "support/server.hpp"

namespace dlock::test {

const char* missing_postgres();  // what is not installed; nullptr: nothing

class PostgresServer {
 public:
  struct Setup {
    std::vector<std::string> config{};       // lines of postgresql.conf, after the usual ones
    std::vector<std::string> hba{};          // lines of pg_hba.conf, before the usual one
    std::vector<std::string> environment{};  // "LD_PRELOAD=..."
    bool on_disk = false;                    // on disk, with a sync at every commit
    std::string data_of{};                   // another server's directory, copied before the start
    bool as_installed = false;               // no settings but port, address and socket
  };
  explicit PostgresServer(Setup setup);
  PostgresServer() : PostgresServer(Setup{}) {}
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  const std::string& directory() const noexcept { return directory_.path(); }
  pid_t pid() const noexcept { return process_.pid(); }
  std::string url(std::string_view database = "postgres") const;  // over TCP; no password
  std::string url_on_socket(std::string_view database = "postgres") const;

  void kill();  // SIGKILL of all its processes, reaped
  void start();
  void restart() { kill(), start(); }
  void freeze();  // SIGSTOP of all its processes
  void thaw();
  static void give(const std::string& path);  // to the user that a server runs as

  // One statement as the superuser over the unix socket; throws when it fails.
  SqlRows sql(std::string_view statement);
  std::string value(std::string_view statement);  // first column of the first row

 private:
  void signal_all(int which) const;
  Setup setup_;
  TestDirectory directory_;
  std::uint16_t port_;
  void fork_server();
  ServerProcess process_;
  std::unique_ptr<postgresql::Connection> admin_;
};

// A private database on one server of this program.
class PostgresDatabase {
 public:
  PostgresDatabase();
  explicit PostgresDatabase(PostgresServer&);
  ~PostgresDatabase();
  PostgresDatabase(const PostgresDatabase&) = delete;
  PostgresDatabase& operator=(const PostgresDatabase&) = delete;

  const std::string& name() const noexcept { return name_; }
  std::string url() const { return server_.url(name_); }
  PostgresServer& server() noexcept { return server_; }
  SqlRows sql(std::string_view statement);
  std::string value(std::string_view statement);

 private:
  PostgresServer& server_;
  std::string name_;
  std::unique_ptr<postgresql::Connection> admin_;
};

// Throws with the message of the error.
std::unique_ptr<Backend> open_postgres(const std::string& url, const Settings& settings = {},
                                       std::string_view recipe = "lease");

}  // namespace dlock::test
