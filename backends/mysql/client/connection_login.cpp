// SPDX-License-Identifier: Apache-2.0
// Opens a connection: address, TLS, authentication plugins, settings of the session.
#include <errmsg.h>
#include <fcntl.h>
#include <mysql.h>
#include <mysqld_error.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include "common/lookup.hpp"
#include "core/text.hpp"
#include "mysql/client/connection.hpp"
#include "mysql/client/found_host.hpp"
#include "mysql/client/steps.hpp"
#include "util/wait.hpp"

namespace dlock::mysql {
namespace {

// MariaDB Connector/C has my_bool, Oracle's libmysqlclient 8 has bool; both take a pointer to one
// byte.
constexpr char on = 1;
constexpr unsigned never = 0;

// Ways to log in that do not reveal the password. A server may ask for another way, such as
// mysql_clear_password, dialog of PAM or mysql_old_password. dlock uses another way only over TLS
// or a unix socket.
constexpr const char* discreet_plugins =
    "mysql_native_password,client_ed25519,parsec,caching_sha2_password,sha256_password,"
    "auth_gssapi_client";

constexpr const char* usual_plugin_dirs[] = {"/usr/lib/x86_64-linux-gnu/libmariadb3/plugin",
                                             "/usr/lib/aarch64-linux-gnu/libmariadb3/plugin",
                                             "/usr/lib64/mariadb/plugin",
                                             "/usr/lib/mariadb/plugin",
                                             "/usr/lib/libmariadb3/plugin",
                                             "/usr/local/lib/mariadb/plugin"};

std::string plugin_dir(const Options& options) {
  if (!options.plugin_dir.empty()) return options.plugin_dir;
  if (const char* own = std::getenv("MARIADB_PLUGIN_DIR"); own && *own) return own;
  for (const char* dir : usual_plugin_dirs)
    if (::access(dir, X_OK) == 0) return dir;
  return "";
}

// "Plugin X could not be loaded: /dir/X.so: cannot open ..." or "Authentication plugin 'X' cannot
// be loaded: ..."
std::string plugin_advice(const std::string& dir, std::string_view text) {
  std::string_view name =
      text.substr(text.starts_with("Plugin ") ? 7 : std::min(text.find('\'') + 1, text.size()));
  name = name.substr(0, name.find_first_of("' "));
  return fmt::format(
      "the file {}.so is needed in {}: install the package libmariadb3, or say where it is with "
      "?plugin_dir= or MARIADB_PLUGIN_DIR",
      printable(name), dir.empty() ? "a plugin directory, and none was found" : printable(dir));
}

void use_tls(MYSQL* m, const TlsOptions& tls) {
  const auto path = [](const std::string& s) { return s.empty() ? nullptr : s.c_str(); };
  using Verify = TlsOptions::Verify;
  ::mysql_ssl_set(m, path(tls.key), path(tls.cert),
                  tls.verify == Verify::nothing ? nullptr : path(tls.ca), nullptr, nullptr);
#ifdef MARIADB_PACKAGE_VERSION
  ::mysql_options(m, MYSQL_OPT_SSL_ENFORCE, &on);
  // Connector/C 3.3 verifies the name only if VERIFY_SERVER_CERT is set. It always verifies the
  // chain if it has a file of authorities. Without VERIFY_SERVER_CERT it would log in without TLS
  // to a server that offers no TLS, unless it has a fingerprint to compare. So set an empty
  // fingerprint, which is compared with nothing.
  if (tls.verify == Verify::name) ::mysql_options(m, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &on);
  else ::mysql_options(m, MARIADB_OPT_TLS_PEER_FP, "");
#else
  const unsigned mode = tls.verify == Verify::nothing ? SSL_MODE_REQUIRED
                        : tls.verify == Verify::chain ? SSL_MODE_VERIFY_CA
                                                      : SSL_MODE_VERIFY_IDENTITY;
  ::mysql_options(m, MYSQL_OPT_SSL_MODE, &mode);
#endif
  ::mysql_options(m, MYSQL_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3");
}

unsigned whole_seconds(Duration d) noexcept {
  return static_cast<unsigned>(
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(d).count()));
}

constexpr unsigned long client_flags = CLIENT_FOUND_ROWS | CLIENT_MULTI_STATEMENTS;
const char* or_null(const std::string& s) noexcept { return s.empty() ? nullptr : s.c_str(); }

// Connects, and exchanges the messages of the login.
//
// Connector/C logs in by steps. Between the steps dlock itself waits, so a wait ends on time,
// whether the server is silent, slow, or far away. (The lookup of a name is not done by steps: see
// FoundHost.) Oracle's library blocks, and only its timeouts limit the login. They are in whole
// seconds, for the address and for each reply.
enum class LogIn { done, failed, too_late };
#ifdef MARIADB_PACKAGE_VERSION
LogIn log_in(MYSQL* m, const Options& o, const Endpoint& at, const std::string& host,
             Duration timeout, int answers) {
  const Deadline until = later(Clock::now(), timeout * answers);
  bool late = false;
  // If the interrupt has already happened, ignore it: the caller may need this connection to leave
  // the queue.
  pollfd before{o.interrupt_fd, POLLIN, 0};
  const int interrupt_fd = ::poll(&before, 1, 0) > 0 ? -1 : o.interrupt_fd;
  const std::size_t stack = 256 * 1024;  // for the steps: a name lookup may load modules
  ::mysql_options(m, MYSQL_OPT_NONBLOCK, &stack);
  MYSQL* made = nullptr;
  int awaited = ::mysql_real_connect_start(&made, m, at.socket.empty() ? host.c_str() : nullptr,
                                           or_null(o.user), o.password.c_str(), o.database.c_str(),
                                           at.port, or_null(at.socket), client_flags);
  while (awaited != 0) {
    Deadline wake = std::min(until, later(Clock::now(), timeout));
    if (awaited & MYSQL_WAIT_TIMEOUT)
      wake = std::min(
          wake, later(Clock::now(), std::chrono::milliseconds{::mysql_get_timeout_value_ms(m)}));
    pollfd p[] = {{socket_of(m), events_of(awaited), 0}, {interrupt_fd, POLLIN, 0}};
    wait_until(p, wake);
    int happened = happened_of(p[0].revents, awaited);
    const Deadline now = Clock::now();
    late = now >= until || (happened == 0 && now >= wake);  // also if the server sends byte by byte
    if (p[1].revents != 0 || late) happened = MYSQL_WAIT_TIMEOUT;
    if (happened != 0) awaited = ::mysql_real_connect_cont(&made, m, happened);
  }
  return made ? LogIn::done : late ? LogIn::too_late : LogIn::failed;
}
#else
LogIn log_in(MYSQL* m, const Options& o, const Endpoint& at, const std::string& host,
             Duration timeout, int) {
  const Deadline until = later(Clock::now(), timeout);
  if (::mysql_real_connect(m, at.socket.empty() ? host.c_str() : nullptr, or_null(o.user),
                           o.password.c_str(), o.database.c_str(), at.port, or_null(at.socket),
                           client_flags))
    return LogIn::done;
  return Clock::now() >= until ? LogIn::too_late : LogIn::failed;
}
#endif

// Returns the addresses of the host. A unix socket has one address, which is empty.
Result<std::vector<std::string>> addresses_of(const Endpoint& at, Deadline until) {
  std::vector<std::string> addresses;
  if (!at.socket.empty()) return std::vector<std::string>(1);
  TRY(found, look_up(at.host, at.port, until));
  for (const Address& a : found) addresses.push_back(a.text());
  return addresses;
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const Options& options, const Endpoint& server,
                                                     Duration timeout, int answers) {
  const Deadline until = later(Clock::now(), timeout);
  TRY(addresses, addresses_of(server, until));
  for (std::size_t i = 0;; ++i) {
    std::unique_ptr<Connection> c{new Connection(server)};
    // A silent address must not use up the time of the other addresses.
    const auto left = std::chrono::duration_cast<Duration>(until - Clock::now());
    const auto share =
        std::max(left, Duration{1'000}) / static_cast<Duration::rep>(addresses.size() - i);
    if (auto ok = c->connect(options, addresses[i], share, answers); !ok) {
      if (i + 1 < addresses.size() && retryable(ok.error().code)) continue;
      return fail(std::move(ok.error()));
    }
    TRY_VOID(c->set_up(options, later(Clock::now(), options.op_timeout)));
    c->used = false;
    return c;
  }
}

Result<void> Connection::connect(const Options& o, const std::string& address, Duration timeout,
                                 int answers) {
  const bool by_name = o.tls && o.tls->verify == TlsOptions::Verify::name;
  const std::string& host = by_name ? o.tls->name_of(at_.host) : address;
  const FoundHost found{host, address};
  handle_ = ::mysql_init(nullptr);
  if (!handle_) return fail(Errc::internal, "the client library does not start");
  const unsigned connect = whole_seconds(timeout), exchange = whole_seconds(o.op_timeout);
  const unsigned protocol = at_.socket.empty() ? MYSQL_PROTOCOL_TCP : MYSQL_PROTOCOL_SOCKET;
  ::mysql_options(handle_, MYSQL_OPT_CONNECT_TIMEOUT, &connect);
  // The limit of one read; poll(2) decides how long a reply may take.
  ::mysql_options(handle_, MYSQL_OPT_READ_TIMEOUT, &exchange);
  ::mysql_options(handle_, MYSQL_OPT_WRITE_TIMEOUT, &exchange);
  ::mysql_options(handle_, MYSQL_OPT_PROTOCOL, &protocol);
  ::mysql_options(handle_, MYSQL_OPT_LOCAL_INFILE, &never);  // a server could ask for any file
  ::mysql_options(handle_, MYSQL_SET_CHARSET_NAME, "utf8mb4");
  ::mysql_options4(handle_, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "dlock");
  const std::string plugins = plugin_dir(o);
  if (!plugins.empty()) ::mysql_options(handle_, MYSQL_PLUGIN_DIR, plugins.c_str());
  if (o.tls) use_tls(handle_, *o.tls);
#ifdef MARIADB_PACKAGE_VERSION
  // Oracle's library asks for TLS by itself.
  else if (at_.socket.empty())
    ::mysql_options(handle_, MARIADB_OPT_RESTRICTED_AUTH, discreet_plugins);
#endif
  // Neither library reconnects unless an option says so. The libraries read no defaults file, so no
  // file can set this option.
  if (const LogIn made = log_in(handle_, o, at_, host, timeout, answers); made != LogIn::done) {
    error_number_ = ::mysql_errno(handle_);
    const std::string_view text = ::mysql_error(handle_);
    Error e = as_login_error("connect", where_, error_number_, text, o.password);
    if (error_number_ == ER_ACCESS_DENIED_ERROR && !o.tls)
      e.message += " (an account with REQUIRE SSL needs ?tls=yes)";
    if (error_number_ == CR_AUTH_PLUGIN_CANNOT_LOAD ||
        text.find("could not be loaded") != text.npos)
      e.message += fmt::format(" ({})", plugin_advice(plugins, text));
    if (e.code == Errc::timed_out) e.code = Errc::unavailable;  // no request has been sent yet
    if (retryable(e.code) && made == LogIn::too_late)
      e = {Errc::unavailable, no_answer("connect", where_).message};
    ::mysql_close(handle_);
    handle_ = nullptr;
    return fail(std::move(e));
  }
  fd_ = socket_of(handle_);
  ::fcntl(fd_, F_SETFD, FD_CLOEXEC);
  if (at_.socket.empty()) {
    const int yes = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  }
  if (o.tls && !::mysql_get_ssl_cipher(handle_)) {
    broken_ = true;
    return fail(Errc::denied, "connect at {}: the server does not speak TLS", where_);
  }
  return {};
}

Result<void> Connection::set_up(const Options& o, Deadline until) {
  const auto lock_wait = std::clamp<std::int64_t>(
      std::chrono::floor<std::chrono::seconds>(o.op_timeout).count(), 1, 3);
  row_wait_ = std::chrono::seconds{lock_wait};
  wait_timeout_ = 120;
  TRY(answer, query("connect", until,
                    "SET NAMES utf8mb4;"  // init_connect may have set another character set
                    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
                    "SET SESSION sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',autocommit=1,"
                    "time_zone='+00:00',"
                    "sql_safe_updates=0,sql_select_limit=~0,"  // DEFAULT is the server's value
                    "innodb_lock_wait_timeout={},lock_wait_timeout={},wait_timeout={};"
                    "SHOW VARIABLES WHERE Variable_name IN ('version','version_comment','hostname',"
                    "'port','server_id','server_uuid','read_only','super_read_only','wsrep_on',"
                    "'wsrep_provider','pseudo_thread_id','timestamp','log_bin','binlog_format',"
                    "'sql_select_limit')",
                    lock_wait, lock_wait, wait_timeout_));
  const auto value = [&](std::string_view name) -> std::string {
    for (std::size_t i = 0; i < answer.rows.size(); ++i)
      if (answer.text(0, i) == name) return std::string{answer.text(1, i)};
    return "";
  };
  const auto is_on = [&](std::string_view name) {
    const std::string v = value(name);
    return v == "ON" || v == "1" || v == "NO_LOCK" || v == "NO_LOCK_NO_ADMIN";
  };
  // A truncated result would hide rows on which a decision depends.
  if (value("sql_select_limit") != std::to_string(UINT64_MAX))
    return fail(Errc::protocol,
                "connect at {}: sql_select_limit cannot be set for the "
                "session, so answers are incomplete",
                where_);
  facts_.version = value("version");
  if (const double seconds = std::strtod(value("timestamp").c_str(), nullptr); seconds > 0) {
    facts_.clock = static_cast<Micros>(seconds * 1e6);
    facts_.clock_at = Clock::now();
  }
  facts_.mariadb = facts_.version.find("MariaDB") != facts_.version.npos;
  facts_.server = fmt::format("{}/{}:{}/{}", value("server_uuid"), value("hostname"), value("port"),
                              value("server_id"));
  facts_.read_only = is_on("read_only") || is_on("super_read_only");
  facts_.galera =
      is_on("wsrep_on") && value("wsrep_provider") != "none" && !value("wsrep_provider").empty();
  facts_.statement_log = is_on("log_bin") && value("binlog_format") == "STATEMENT";
  facts_.thread = ::mysql_thread_id(handle_);
  facts_.proxied = value("pseudo_thread_id") != std::to_string(facts_.thread) ||
                   value("version_comment").find("ProxySQL") != std::string::npos;
  // With a statement-based binary log, each write at READ COMMITTED would fail with error 1665.
  // Statements are atomic, so the level only changes what else they lock.
  if (facts_.statement_log)
    TRY_VOID(query("connect", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", until));
  if (facts_.galera && o.servers.size() > 1) {
    TRY(status, query("connect", "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'", until));
    facts_.cluster = status.text(1);
  }
  return {};
}

}  // namespace dlock::mysql
