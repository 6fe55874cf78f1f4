// SPDX-License-Identifier: Apache-2.0
#include "support/mariadb_server.hpp"
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include "mysql/factory.hpp"

namespace dlock::test {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

std::string user_name() {
  const passwd* p = ::getpwuid(::geteuid());
  return p ? p->pw_name : "nobody";
}

// A fresh data directory, made once per program: it takes half a second.
const std::string& template_data() {
  static const TestDirectory made(data_place(false));
  static const std::string data = [] {
    const std::string command = fmt::format(
        "mariadb-install-db --no-defaults --datadir={0}/data --tmpdir={0} "
        "--auth-root-authentication-method=normal --skip-test-db --user={1} >{0}/install.log 2>&1",
        made.path(), user_name());
    if (std::system(command.c_str()) != 0) throw std::runtime_error("mariadb-install-db failed");
    return made.path() + "/data";
  }();
  return data;
}

std::unique_ptr<mysql::Connection> connect(const Endpoint& at, const std::string& database) {
  mysql::Options o;
  o.user = "root";
  o.database = database;
  o.op_timeout = 60s;
  auto c = mysql::Connection::open(o, at, 60s);
  if (!c) throw std::runtime_error(c.error().message);
  return std::move(*c);
}

// The port in the URL that the file $DLOCK_TEST_MYSQL has; 0: none.
std::uint16_t shared_port() {
  const char* path = std::getenv("DLOCK_TEST_MYSQL");
  std::string url;
  if (path) std::getline(std::ifstream{path}, url);
  const std::size_t colon = url.rfind(':');
  return colon == url.npos ? std::uint16_t{0}
                           : static_cast<std::uint16_t>(std::stoi(url.substr(colon + 1)));
}

std::uint16_t own_port() {
  static const MariadbServer own;
  return own.port();
}

}  // namespace

const char* missing_mariadb() {
  const char* path = std::getenv("PATH");
  const std::string all = path ? path : "";
  if (all.find("/usr/sbin") == all.npos)
    ::setenv("PATH", (all + ":/usr/sbin:/usr/local/sbin").c_str(), 1);
  return installed("mariadbd") && installed("mariadb-install-db") ? nullptr : "mariadbd";
}

std::unique_ptr<mysql::Connection> connect_as_root(const std::string& socket,
                                                   const std::string& database) {
  return connect({.host = {}, .port = 0, .socket = socket}, database);
}

MariadbServer::MariadbServer(Setup setup)
    : setup_(std::move(setup)), directory_(data_place(setup_.on_disk)), port_(free_port()) {
  if (missing_mariadb()) throw std::runtime_error("mariadbd is not installed");
  fs::copy(setup_.data_of.empty() ? template_data() : setup_.data_of + "/data",
           directory() + "/data", fs::copy_options::recursive);
  std::string conf = fmt::format(
      "[mariadbd]\ndatadir={0}/data\nport={1}\nbind-address=127.0.0.1\nsocket={0}/s\npid-file={0}/"
      "pid\nlog-error={0}/log\n"
      "tmpdir={0}\ninnodb_buffer_pool_size=16M\ninnodb_log_file_size=8M\ninnodb_flush_log_at_trx_"
      "commit={2}\nperformance_schema="
      "OFF\n"
      "skip-name-resolve\nskip-log-bin\nmax_connections=1000\nsecure-file-priv={0}\n",
      directory(), port_, setup_.on_disk ? 1 : 0);
  for (const auto& line : setup_.config) conf += line + "\n";
  write_file(directory() + "/my.cnf", conf);
  if (::geteuid() != 0) setup_.user.clear();
  if (!setup_.user.empty() &&
      std::system(fmt::format("chown -R {} {}", setup_.user, directory()).c_str()) != 0)
    throw std::runtime_error("chown to " + setup_.user);
  start();
}

std::string MariadbServer::url(std::string_view database) const {
  return fmt::format("mysql://root@127.0.0.1:{}/{}", port_, database);
}

void MariadbServer::start() {
  const std::string defaults = fmt::format("--defaults-file={}/my.cnf", directory()),
                    user = "--user=" + (setup_.user.empty() ? user_name() : setup_.user);
  std::vector<std::string> words{"mariadbd", defaults, user};
  words.insert(words.end(), setup_.arguments.begin(), setup_.arguments.end());
  process_ = ServerProcess{start_server(
      words, {.environment = setup_.environment,
              .user = setup_.user.empty() ? nullptr : ::getpwnam(setup_.user.c_str())})};
  setup_.arguments.clear();
  if (setup_.wait_ready) wait_ready();
}

void MariadbServer::wait_ready() {
  // A node of a cluster answers when it has copied the data of another one.
  for (const Deadline until = Clock::now() + 180s; Clock::now() < until; ::usleep(3000)) {
    if (process_.ended()) break;
    try {
      admin_ = connect_as_root(socket());
      return;
    } catch (const std::runtime_error&) {}
  }
  throw std::runtime_error("mariadbd does not start; see " + directory() + "/log.err");
}

void MariadbServer::kill() {
  admin_.reset();
  process_.kill();
}

SqlRows MariadbServer::sql(std::string_view statement) {
  if (!admin_ || admin_->broken()) admin_ = connect_as_root(socket());
  auto r = admin_->query("sql", statement, Clock::now() + 60s);
  if (!r) throw std::runtime_error(fmt::format("{}: {}", statement, r.error().message));
  return std::move(*r);
}
std::string MariadbServer::value(std::string_view statement) {
  return std::string{sql(statement).text(0)};
}

Database::Database() : port_(shared_port()) {
  if (port_ == 0) port_ = own_port();
  create();
}
Database::Database(MariadbServer& server) : port_(server.port()) { create(); }

void Database::create() {
  static std::atomic<int> n{0};
  name_ = fmt::format("t_{}_{}", ::getpid(), ++n);
  admin_ = connect({.host = "127.0.0.1", .port = port_, .socket = {}}, "");
  sql("CREATE DATABASE " + name_);
  sql("USE " + name_);
}

Database::~Database() {
  if (admin_) (void)admin_->query("drop", "DROP DATABASE IF EXISTS " + name_, Clock::now() + 60s);
}

std::string Database::url() const {
  return fmt::format("mysql://root@127.0.0.1:{}/{}", port_, name_);
}

SqlRows Database::sql(std::string_view statement) {
  auto r = admin_->query("sql", statement, Clock::now() + 60s);
  if (!r) throw std::runtime_error(fmt::format("{}: {}", statement, r.error().message));
  return std::move(*r);
}
std::string Database::value(std::string_view statement) {
  return std::string{sql(statement).text(0)};
}

std::unique_ptr<Backend> open_mysql(const std::string& url, const Settings& settings,
                                    std::string_view recipe) {
  return open_backend(mysql::factory, url, settings, recipe);
}

}  // namespace dlock::test
