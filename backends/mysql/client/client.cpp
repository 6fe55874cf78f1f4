// SPDX-License-Identifier: Apache-2.0
#include "mysql/client/client.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::mysql {
namespace {

constexpr Duration longest_check{1'000'000};  // to check all other hosts of a URL
// how many replies a login takes: address, greeting, TLS, password
constexpr int answers_of_login = 4;
}  // namespace

Result<std::unique_ptr<SqlSession>> Client::open(const Duration* share) {
  auto c =
      Connection::open(options_, options_.servers[server_],
                       std::min(options_.connect_timeout, share ? *share : options_.op_timeout),
                       ever_connected_ ? answers_of_login : 1);
  if (c) (*c)->least_time = options_.op_timeout;
  return c;
}

// Refuses several independent servers, because each of them would grant the lock. The first call
// checks all servers that reply now. The other servers are checked when they are used.
Result<void> Client::prepare_session(SqlSession& s, bool, Deadline until) {
  const Connection& c = as_connection(s);
  if (options_.servers.size() < 2) return {};
  TRY_VOID(same_cluster(c));
  if (std::exchange(cluster_known_, true)) return {};
  const Deadline end = std::min(until, later(Clock::now(), longest_check));
  for (const Endpoint& at : options_.servers) {
    if (at.text() == c.where()) continue;
    const Duration left = std::chrono::duration_cast<Duration>(end - Clock::now());
    if (left <= Duration{}) break;
    auto other = Connection::open(options_, at, std::min(options_.connect_timeout, left));
    if (!other) continue;
    exchanges_ += (*other)->exchanges();
    const auto same = same_cluster(**other);
    (*other)->close();
    if (!same && !retryable(same.error().code)) {
      cluster_known_ = false;
      return same;
    }
  }
  return {};
}

Result<void> Client::same_cluster(const Connection& c) {
  constexpr std::string_view none = "00000000-0000-0000-0000-000000000000";
  const auto refuse = [&](std::string_view what) {
    return fail(
        Errc::usage,
        "{}: {}; several hosts in a URL are nodes of one Galera cluster, so name one server",
        options_.where, what);
  };
  const std::string& found = c.facts().cluster;
  if (!c.facts().galera) return refuse(fmt::format("{} is no node of a Galera cluster", c.where()));
  if (found.empty() || found == none)
    return fail(Errc::unavailable, "{} has not joined its cluster", c.where());
  if (cluster_.empty()) {
    cluster_ = found;
    cluster_at_ = c.where();
  }
  if (found != cluster_)
    return refuse(fmt::format("{} and {} belong to different clusters", cluster_at_, c.where()));
  return {};
}

Result<std::unique_ptr<SqlSession>> Client::writable_session(Deadline until) {
  Result<void> writes;
  for (std::size_t tried = 0; tried < options_.servers.size(); ++tried) {
    auto s = session(until);
    if (!s) return s;
    Connection& c = as_connection(**s);
    writes = writable(c.where(), c.facts().read_only);
    if (writes) return s;
    c.close();
    drop(std::move(*s));
    next_server();
  }
  return fail(std::move(writes.error()));
}

void Client::give_back(std::unique_ptr<SqlSession> s) {
  if (!s) return;
  Connection& c = as_connection(*s);
  const bool clean = !c.broken() && !c.under_way() && c.names.empty();
  if (clean && idle_.size() < most_idle) {
    std::erase(out_, s.get());
    return idle_.push_back(std::move(s));
  }
  if (c.remedy() == Remedy::elsewhere) next_server();
  if (clean) c.close();
  drop(std::move(s));
}

Result<void> Client::erase(const Rows& rows, const std::string& name) {
  const Deadline until = usual_deadline();
  TRY_VOID(run_if_there<SqlRows>([&](Connection& c) {
    return c.query("remove", until, "DELETE FROM `{}` WHERE `{}`={}{}", rows.table, rows.column,
                   rows.text ? text_hex(name) : hex(name), rows.also);
  }));
  return {};
}

int Client::end_wait(SqlSession* waiting) {
  if (!waiting || !waiting->under_way()) return 0;
  const Deadline until = usual_deadline();
  const auto ended = run<SqlRows>(until, false, [&](Connection& c) {
    return c.query("end the wait", until, "KILL QUERY {}", as_connection(*waiting).facts().thread);
  });
  if (ended) (void)waiting->receive({until});
  return 0;
}

bool Client::may_repeat(SqlSession& s, const Error& e, Deadline until, unsigned failures) {
  if (!retryable(e.code)) return false;
  // Do not repeat a step that waited too long, because its time is used up. If the connection broke
  // early, there is time for another connection.
  if (e.code == Errc::timed_out && !s.has_server_error()) return false;
  if (s.remedy() == Remedy::elsewhere) {
    for (auto& idle : idle_) {  // drop the idle sessions of the same server
      exchanges_ += idle->exchanges();
      as_connection(*idle).close();
    }
    idle_.clear();
    if (options_.servers.size() == 1) return false;
  }
  return pause(pause_after(failures), until);
}

// A server may forbid tables in memory, and report this by one of several errors. Then the table
// becomes an InnoDB table instead.
Result<void> Client::create(SqlSession& s, Deadline until) {
  Connection& c = as_connection(s);
  auto made = c.query("create the tables", schema_, until);
  constexpr std::string_view memory = "ENGINE=MEMORY";
  if (const auto at = schema_.find(memory);
      !made && at != schema_.npos && !c.broken() && c.remedy() == Remedy::none)
    made = c.query("create the tables",
                   std::string{schema_}.replace(at, memory.size(), "ENGINE=InnoDB"), until);
  if (made) return {};
  if (retryable(made.error().code) || c.remedy() == Remedy::later) return fail(made.error());
  return fail(no_tables(made.error()));
}

}  // namespace dlock::mysql
