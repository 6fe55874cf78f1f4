// SPDX-License-Identifier: Apache-2.0
#include "support/postgres_server.hpp"
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include "postgresql/factory.hpp"

namespace dlock::test {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

std::string programs() {
  std::string newest;
  std::error_code none;
  for (const auto& one : fs::directory_iterator("/usr/lib/postgresql", none))
    if (fs::exists(one.path() / "bin/initdb")) newest = std::max(newest, one.path().string());
  return newest.empty() ? "" : newest + "/bin/";
}

// Whom the server runs as: nobody else than us, unless we are root.
const passwd* other_user() {
  if (::geteuid() != 0) return nullptr;
  const passwd* p = ::getpwnam("postgres");
  return p ? p : ::getpwnam("nobody");
}

void shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error(command);
}

std::string as_user(const std::string& command) {
  const passwd* p = other_user();
  return p ? fmt::format("setpriv --reuid={} --regid={} --clear-groups {}", p->pw_uid, p->pw_gid,
                         command)
           : command;
}

void give_to_user(const std::string& path) {
  if (const passwd* p = other_user())
    shell(fmt::format("chown -R {}:{} {}", p->pw_uid, p->pw_gid, path));
}

// A fresh data directory, made once per program: it takes a second.
const std::string& template_data() {
  static const TestDirectory made(data_place(false));
  static const std::string data = [] {
    give_to_user(made.path());
    shell(
        as_user(fmt::format("{0}initdb -D {1}/data -U postgres -A trust -N --no-instructions "
                            "-E UTF8 --locale=C >{1}/log 2>&1",
                            programs(), made.path())));
    return made.path() + "/data";
  }();
  return data;
}

std::unique_ptr<postgresql::Connection> connect_as_superuser(const std::string& directory,
                                                             std::uint16_t port,
                                                             const std::string& database) {
  postgresql::Options o;
  o.user = "postgres";
  o.database = database;
  o.op_timeout = 60s;
  auto c = postgresql::Connection::open(o, {.host = {}, .port = port, .socket = directory}, 60s);
  if (!c) throw std::runtime_error(c.error().message);
  return std::move(*c);
}

SqlRows run(postgresql::Connection& c, std::string_view statement) {
  const SqlStatement s{"", std::string{statement}};
  auto r = c.query("sql", {s}, Clock::now() + 60s);
  if (!r) throw std::runtime_error(fmt::format("{}: {}", statement, r.error().message));
  return std::move(*r);
}

}  // namespace

const char* missing_postgres() { return programs().empty() ? "postgres" : nullptr; }

PostgresServer::PostgresServer(Setup setup)
    : setup_(std::move(setup)), directory_(data_place(setup_.on_disk)), port_(free_port()) {
  if (missing_postgres()) throw std::runtime_error("postgres is not installed");
  const std::string data = directory() + "/data";
  fs::copy(setup_.data_of.empty() ? template_data() : setup_.data_of + "/data", data,
           fs::copy_options::recursive);
  fs::remove(data + "/postmaster.pid");
  {
    std::ofstream conf(data + "/postgresql.conf", std::ios::app);
    conf << fmt::format(
        "\nport={}\nlisten_addresses='127.0.0.1'\nunix_socket_directories='{}'\n"
        "shared_memory_type=mmap\ndynamic_shared_memory_type=mmap\n",
        port_, directory());
    if (!setup_.as_installed)
      conf << fmt::format(
          "fsync={0}\nsynchronous_commit={0}\nfull_page_writes={0}\nshared_buffers=16MB\n"
          "max_connections=700\nmax_wal_size=64MB\n",
          setup_.on_disk ? "on" : "off");
    for (const auto& line : setup_.config) conf << line << '\n';
    if (!setup_.hba.empty()) {
      std::ofstream hba(data + "/pg_hba.conf", std::ios::trunc);
      for (const auto& line : setup_.hba) hba << line << '\n';
      hba << "local all all trust\n";
    }
  }
  give_to_user(directory());
  fs::permissions(data, fs::perms::owner_all);
  fs::permissions(directory(), fs::perms::owner_all | fs::perms::group_exec |
                                   fs::perms::others_exec | fs::perms::others_read);
  start();
}

PostgresServer::~PostgresServer() { kill(); }

void PostgresServer::give(const std::string& path) { give_to_user(path); }

std::string PostgresServer::url(std::string_view database) const {
  return fmt::format("postgresql://postgres@127.0.0.1:{}/{}", port_, database);
}
std::string PostgresServer::url_on_socket(std::string_view database) const {
  return fmt::format("postgresql+unix://postgres@{}?db={}&port={}", directory(), database, port_);
}

void PostgresServer::fork_server() {
  process_ = ServerProcess{start_server({programs() + "postgres", "-D", directory() + "/data"},
                                        {.environment = setup_.environment,
                                         .log = directory() + "/log",
                                         .user = other_user(),
                                         // an immediate end, of its children, too
                                         .dies_by = SIGQUIT})};
}

// The children of one that was killed may still have its port or its memory: until they are gone,
// the next one ends at once.
void PostgresServer::start() {
  fork_server();
  for (const Deadline until = Clock::now() + 60s; Clock::now() < until; ::usleep(3000)) {
    if (process_.ended()) fork_server();
    try {
      admin_ = connect_as_superuser(directory(), port_, "postgres");
      return;
    } catch (const std::runtime_error&) {}
  }
  throw std::runtime_error("postgres does not start; see " + directory() + "/log");
}

// Its backends are not in its process group, but children.
void PostgresServer::signal_all(int which) const {
  ::kill(pid(), which);
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", pid()));
  for (pid_t child = 0; children >> child;) ::kill(child, which);
}

void PostgresServer::kill() {
  admin_.reset();
  if (pid() <= 0) return;
  ::kill(pid(), SIGSTOP);  // no new children
  signal_all(SIGKILL);
  process_.kill();
  std::error_code none;
  fs::remove(directory() + "/data/postmaster.pid", none);
}

void PostgresServer::freeze() { signal_all(SIGSTOP); }
void PostgresServer::thaw() { signal_all(SIGCONT); }

SqlRows PostgresServer::sql(std::string_view statement) {
  if (!admin_ || admin_->broken()) admin_ = connect_as_superuser(directory(), port_, "postgres");
  return run(*admin_, statement);
}
std::string PostgresServer::value(std::string_view statement) {
  return std::string{sql(statement).text(0)};
}

namespace {
PostgresServer& shared_server() {
  static PostgresServer server;
  return server;
}
}  // namespace

PostgresDatabase::PostgresDatabase() : PostgresDatabase(shared_server()) {}
PostgresDatabase::PostgresDatabase(PostgresServer& server) : server_(server) {
  static std::atomic<int> n{0};
  name_ = fmt::format("t_{}_{}", ::getpid(), ++n);
  server_.sql("CREATE DATABASE " + name_);
}
PostgresDatabase::~PostgresDatabase() {
  admin_.reset();
  try {
    server_.sql(fmt::format("DROP DATABASE IF EXISTS {} WITH (FORCE)", name_));
  } catch (const std::runtime_error&) {}
}

SqlRows PostgresDatabase::sql(std::string_view statement) {
  if (!admin_ || admin_->broken())
    admin_ = connect_as_superuser(server_.directory(), server_.port(), name_);
  return run(*admin_, statement);
}
std::string PostgresDatabase::value(std::string_view statement) {
  return std::string{sql(statement).text(0)};
}

std::unique_ptr<Backend> open_postgres(const std::string& url, const Settings& settings,
                                       std::string_view recipe) {
  return open_backend(postgresql::factory, url, settings, recipe);
}

}  // namespace dlock::test
