// SPDX-License-Identifier: Apache-2.0
// Opens a connection: address, parameters for libpq, settings of the session.
#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include "postgresql/client/connection.hpp"
#include "util/wait.hpp"

namespace dlock::postgresql {
namespace {

constexpr Duration short_try{250'000};

bool is_local(int socket) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

// Returns a statement that sets what would otherwise change the meaning of our statements, how long
// they wait, or how the server plans them. (By default a server scans small tables that were never
// analysed, and plans a statement again for each execution.) The statement leaves out a setting
// that the server does not know. Behind a pooler it sets nothing, because the settings would stay
// with the session of another client. With client_connection_check_interval the server notices the
// end of a client that waits; with tcp_user_timeout, in ms, it notices that the client's host is
// gone.
std::string settings_in_sql(Duration row_wait) {
  return fmt::format(
      "SELECT {},pg_is_in_recovery() OR current_setting('transaction_read_only')='on',"
      "pg_backend_pid(),current_setting('server_version'),"
      "(SELECT count(set_config(s.n,s.v,false)) FROM (VALUES ('lock_timeout','{}ms'),"
      "('statement_timeout','0'),('idle_session_timeout','0'),"
      "('default_transaction_isolation','read "
      "committed'),('client_connection_check_interval','1s'),('tcp_user_timeout','60000'),"
      "('plan_cache_mode','force_generic_plan'),('enable_seqscan','off'),('enable_sort','off'),"
      "('enable_bitmapscan','off'),('jit','off')) s(n,v) WHERE pg_backend_pid()=$1::int AND "
      "current_setting(s.n,true) IS NOT NULL)",
      server_clock, std::chrono::duration_cast<std::chrono::milliseconds>(row_wait).count());
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const Options& options, const Server& server,
                                                     Duration timeout) {
  const Deadline until = later(Clock::now(), timeout);
  Addresses found(1);  // a unix socket has no address
  if (server.socket.empty()) {
    auto r = look_up(server.address.empty() ? server.host : server.address, server.port, until);
    if (!r) return fail(std::move(r.error()));
    found = std::move(*r);
  }
  // With several addresses, each is first tried for a short time. Then each is tried again, for a
  // share of the time that is left. So a silent address does not use up the time of the others.
  const std::size_t tries = found.size() > 1 ? 2 * found.size() : 1;
  for (std::size_t i = 0;; ++i) {
    std::unique_ptr<Connection> c{new Connection(server)};
    const auto left = std::max<Clock::duration>(until - Clock::now(), Duration{1'000});
    auto share = std::chrono::duration_cast<Duration>(left) / static_cast<Duration::rep>(tries - i);
    if (tries - i > found.size()) share = std::min<Duration>(share, short_try);
    const Deadline end = later(Clock::now(), share);
    const Address* at = server.socket.empty() ? &found[i % found.size()] : nullptr;
    auto ok = c->connect(options, at, end);
    if (ok) ok = c->set_up(options, std::max(end, later(Clock::now(), options.op_timeout)));
    if (ok) return c;
    if (i + 1 >= tries || !retryable(ok.error().code)) return fail(std::move(ok.error()));
  }
}

Result<void> Connection::connect(const Options& o, const Address* address, Deadline until) {
  std::vector<std::pair<std::string, std::string>> parameters = o.library;
  std::erase_if(parameters, [](const auto& w) { return w.first == "target_session_attrs"; });
  const auto add = [&](std::string_view name, std::string value) {
    if (!value.empty()) parameters.emplace_back(name, std::move(value));
  };
  add("host", !at_.socket.empty() ? at_.socket : !o.tls_name.empty() ? o.tls_name : at_.host);
  if (address) add("hostaddr", address->text());
  add("port", std::to_string(at_.port));
  add("dbname", o.database);
  add("user", o.user);
  add("password", o.password);
  add("client_encoding", "UTF8");
  add("fallback_application_name", "dlock");
  add("gssencmode", "disable");
  add("target_session_attrs", "any");  // set_up() asks for the role
  std::vector<const char*> names, values;
  for (const auto& [name, value] : parameters) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  handle_ = ::PQconnectStartParams(names.data(), values.data(), 0);
  if (!handle_) return fail(Errc::internal, "the client library does not start");
  ::PQsetErrorVerbosity(handle_, PQERRORS_VERBOSE);  // then libpq's error texts have the SQLSTATE
  ::PQsetNoticeProcessor(
      handle_, [](void*, const char*) {}, nullptr);
  if (::PQstatus(handle_) == CONNECTION_BAD)
    return fail(as_login_error(where_, ::PQerrorMessage(handle_)));
  // If another source names an address, libpq uses the address and not the socket. Nothing has been
  // sent to that address yet.
  if (!at_.socket.empty() && !is_local(::PQsocket(handle_)))
    return fail(Errc::config,
                "connect at {}: PGHOSTADDR, or hostaddr of a service, "
                "names an address that would count instead",
                where_);
  for (auto state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK;) {
    pollfd p{::PQsocket(handle_),
             static_cast<short>(state == PGRES_POLLING_READING ? POLLIN : POLLOUT), 0};
    if (wait_until({&p, 1}, until) <= 0)
      return fail(Errc::unavailable, no_answer("connect", where_).message);
    state = ::PQconnectPoll(handle_);
    if (state == PGRES_POLLING_FAILED)
      return fail(as_login_error(where_, ::PQerrorMessage(handle_)));
  }
  ::PQsetErrorVerbosity(handle_, PQERRORS_DEFAULT);
  if (::PQsetnonblocking(handle_, 1) != 0 || ::PQenterPipelineMode(handle_) != 1)
    return fail(Errc::internal, "the client library refuses its pipeline mode");
  return {};
}

Result<void> Connection::set_up(const Options& o, Deadline until) {
  row_wait_ = std::clamp<Duration>(o.op_timeout / 2, std::chrono::milliseconds{10},
                                   std::chrono::seconds{3});
  const SqlStatement hello{"", settings_in_sql(row_wait_)};
  // A pooler reports a number of its own, or none. With wake=poll the sessions may be shared, so
  // the query gets a number that fits no session.
  const int pid = o.poll ? -1 : ::PQbackendPID(handle_);
  TRY(r, query("connect", {hello, {std::to_string(pid)}}, until));
  const auto clock = r.number<Micros>(0);
  const auto real = r.number<int>(2);
  if (!clock || !real) return fail(malformed_reply("connect", where_));
  facts_.clock = *clock;
  facts_.clock_at = Clock::now();
  facts_.read_only = r.text(1) != "f";
  facts_.pid = *real;
  facts_.version = r.text(3);
  facts_.proxied = *real != pid;
  used = false;
  least_time_ = o.op_timeout;
  return {};
}

}  // namespace dlock::postgresql
