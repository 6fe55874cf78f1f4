// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <mysqld_error.h>
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include "common/examination.hpp"
#include "core/text.hpp"
#include "mysql/client/client.hpp"
#include "mysql/foreign/named_backend.hpp"

namespace dlock::mysql {
namespace {

using Level = Finding::Level;

constexpr double least_wait_timeout = 30;  // in seconds

class Examination {
 public:
  Examination(Connection& c, const Traits& traits, const Options& options, Deadline until)
      : c_(c),
        traits_(traits),
        options_(options),
        until_(until),
        found_(options.servers.size() > 1 ? " of " + c.where() : "") {}

  Result<std::vector<Finding>> examine() {
    TRY(all, query("SHOW VARIABLES"));
    variables_ = std::move(all);
    found_.add("server", printable(c_.facts().version), Level::good);
    read_only();
    tables();
    isolation();
    time_outs();
    durability();
    cluster();
    proxy();
    replication();
    statements();
    clock();
    return found_.extract();
  }

  // Examines what may differ from host to host.
  std::vector<Finding> examine_other() {
    read_only();
    cluster();
    clock();
    return found_.extract();
  }
  // Returns the server's clock minus this host's clock, in seconds.
  std::optional<double> apart() const noexcept { return apart_; }

 private:
  Result<SqlRows> query(const std::string& sql) { return c_.query("examine", sql, until_); }
  std::string variable(std::string_view name) const {  // empty: the server has no such variable
    for (std::size_t i = 0; i < variables_.rows.size(); ++i)
      if (variables_.text(0, i) == name) return printable(variables_.text(1, i));
    return "";
  }
  static double number(const std::string& text) { return std::atof(text.c_str()); }
  bool by_connection() const { return traits_.liveness == Liveness::connection; }

  void read_only() {
    const bool on = c_.facts().read_only;
    found_.add("read_only", on ? "ON: nothing is granted here" : "OFF", good_if(!on, Level::bad),
               "use the server that writes: locks are rows, and a replica lags");
  }

  // A table of dlock for this recipe, not another program's table. `deletes`: dlock deletes rows of
  // the table in normal use.
  struct Table {
    std::string name, column;
    bool deletes = false;
  };
  std::vector<Table> own_tables() const {
    const bool own = options_.table.empty();
    if (traits_.recipe == "lease") return {{"dlock_lock", "name"}, {"dlock_wait", "name", true}};
    if (traits_.recipe == "get-lock") return {{"dlock_named", "name"}};
    if (traits_.recipe == "for-update" && own)
      return {{"dlock_grant", "name"}, {"dlock_row", "name"}};
    if (traits_.recipe == "for-update") return {{"dlock_grant", "name"}};
    if (traits_.recipe == "insert" && own)
      return {{"dlock_insert", "name"}, {"method_lock", "method_name", true}};
    if (traits_.recipe == "insert") return {{"dlock_insert", "name"}};
    return own ? std::vector<Table>{{"dlock_version", "name"}} : std::vector<Table>{};
  }

  void tables() {
    std::string missing;
    std::vector<std::string> all;
    for (const Table& t : own_tables()) all.push_back(t.name);
    const std::size_t own = all.size();
    if (!options_.table.empty()) all.push_back(options_.table);
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto engine = query(engine_of(all[i]));
      if (!engine) return found_.add("tables", "may not be looked at", Level::unknown);
      if (engine->rows.empty() && i >= own)
        found_.add("table " + all[i], "missing", Level::bad,
                   "it belongs to the program that is to be excluded: ?table= may be wrong");
      else if (engine->rows.empty()) add_part(missing, all[i]);
      // get-lock may use a table in memory, which lives as long as the locks that it describes
      else if (engine->text(1) == "NO" && traits_.recipe != "get-lock")
        found_.add(
            "table " + all[i], printable(fmt::format("engine {}", engine->text(0))), Level::bad,
            "it has no transactions, so it locks no rows and a crash may empty it: ALTER TABLE ... "
            "ENGINE=InnoDB");
    }
    if (missing.empty()) {
      rights();
      return found_.add("tables", "there", Level::good);
    }
    const auto may = may_create(missing.substr(0, missing.find(',')));
    if (may) return found_.add("tables", missing + " missing: made at the first use", Level::good);
    found_.add("tables",
               fmt::format("{} missing, and {}", missing,
                           may.error().code == Errc::denied ? "this account may not make them"
                                                            : printable(may.error().message)),
               Level::bad, "another account must run the statements of dlock-mysql(7)");
  }

  // Tries to create a table that has the same column twice. The server never creates it, but checks
  // the rights and the engine before the columns. Client::create() needs MEMORY or InnoDB.
  Result<void> may_create(const std::string& table) {
    Result<void> refused;
    for (const char* engine : {"MEMORY", "InnoDB"}) {
      if (traits_.recipe != "get-lock" && engine == std::string_view{"MEMORY"}) continue;
      const auto made =
          query(fmt::format("CREATE TABLE {} (name INT, name INT) ENGINE={}", table, engine));
      if (made || c_.error_number() == ER_DUP_FIELDNAME) return {};
      refused = fail(made.error());
    }
    return refused;
  }

  // Tries statements that need a right and change no row.
  void rights() {
    if (c_.facts().read_only) return;
    std::string denied;
    for (const auto& [table, column, deletes] : own_tables()) {
      const std::string sql[] = {fmt::format("SELECT 1 FROM {} LIMIT 0", table),
                                 fmt::format("INSERT INTO {0} SELECT * FROM {0} WHERE 0", table),
                                 fmt::format("UPDATE {0} SET {1}={1} WHERE 0", table, column),
                                 fmt::format("DELETE FROM {} WHERE 0", table)};
      for (const std::string& one : std::span{sql}.first(deletes ? 4 : 3))
        if (const auto done = query(one); !done && done.error().code == Errc::denied)
          add_part(denied, fmt::format("{} on {}", one.substr(0, one.find(' ')), table));
    }
    found_.add("rights", denied.empty() ? "enough" : "missing: " + denied,
               good_if(denied.empty(), Level::bad), "grant what dlock-mysql(7) lists");
  }

  // dlock sets the isolation level for its sessions, but a proxy in between may override it.
  void isolation() {
    const std::string old = variable("tx_isolation");
    const std::string level = old.empty() ? variable("transaction_isolation") : old;
    const bool good = level == (c_.facts().statement_log ? "REPEATABLE-READ" : "READ-COMMITTED");
    found_.add("isolation", level, good_if(good, Level::bad),
               "the session was set to another level and is not: connect to the server itself");
  }

  void time_outs() {
    const std::string most = variable("max_connections");
    found_.add("max_connections", most, good_if(number(most) >= 100, Level::warning),
               "each holder and each waiter needs a connection");
    // This session sees its own value, but other clients get the global value.
    const auto global = query("SHOW GLOBAL VARIABLES LIKE 'wait_timeout'");
    const std::string wait = global ? printable(global->text(1)) : "?";
    // dlock's sessions have their own value, set for each ttl.
    found_.add("wait_timeout", wait,
               good_if(!global || number(wait) >= least_wait_timeout, Level::warning),
               by_connection() ? "dlock sets its own, but other programs that use this lock lose "
                                 "it after this many seconds of silence: raise it"
                               : "dlock sets its own once it is connected; a server that closes so "
                                 "soon may do so before: raise it");
    const std::string idle = variable("idle_transaction_timeout");
    if (traits_.recipe == "for-update" && number(idle) > 0)
      found_.add("idle_transaction_timeout", idle, Level::bad,
                 "the server ends an open transaction after so many seconds, and the lock with "
                 "it: set it to 0");
    const std::string statement = variable("max_statement_time");
    if (number(statement) > 0)
      found_.add("max_statement_time", statement, Level::warning,
                 "the server ends waits after so many seconds; waiters ask again");
  }

  void durability() {
    const std::string flush = variable("innodb_flush_log_at_trx_commit");
    found_.add("innodb_flush_log_at_trx_commit", flush,
               good_if(flush == "1" || by_connection(), Level::warning),
               "a crash of the machine can forget the last second's grants: set it to 1");
  }

  void cluster() {
    if (!c_.facts().galera)
      return found_.add("wsrep_on", "OFF", good_if(options_.servers.size() == 1, Level::bad),
                        "several hosts in a URL are nodes of one Galera cluster; separate servers "
                        "do not exclude each other: name one");
    found_.add("wsrep_on",
               by_connection()             ? "ON"
               : traits_.recipe == "lease" ? "ON: waiters poll"
                                           : "ON: leases end ?clock_skew= later",
               good_if(!by_connection(), Level::bad),
               "named locks and row locks are known to one node of the cluster only: use recipe "
               "lease");
    const auto status = query(
        "SHOW STATUS WHERE Variable_name IN "
        "('wsrep_ready','wsrep_cluster_status','wsrep_cluster_size')");
    for (std::size_t i = 0; status && i < status->rows.size(); ++i) {
      const std::string what{status->text(0, i)}, value{status->text(1, i)};
      const bool size = what == "wsrep_cluster_size";
      const bool good = value == "ON" || value == "Primary" || (size && number(value) >= 3);
      found_.add(what, printable(value), good_if(good, size ? Level::warning : Level::bad),
                 "a cluster needs three nodes, and most of them in its primary component");
    }
  }

  void proxy() {
    if (!c_.facts().proxied)
      return found_.add("proxy", "none that shares connections", Level::good);
    found_.add("proxy", "the server has another id for this connection",
               by_connection() ? Level::bad : Level::warning,
               by_connection() ? "a lock would end up with the next user of that connection: "
                                 "connect to the server itself, or use recipe lease"
                               : "waiters poll; connect to the server itself for a wake-up");
  }

  void replication() {
    const auto replica = query(c_.facts().mariadb ? "SHOW SLAVE STATUS" : "SHOW REPLICA STATUS");
    if (!replica)
      return found_.add("replication", "may not be asked", Level::unknown,
                        "grant REPLICA MONITOR (REPLICATION CLIENT on MySQL) to see it");
    if (!replica->rows.empty())
      return found_.add("replication", "this server is a replica", Level::bad,
                        "use the server that writes: a replica learns of a grant later");
    const bool semi = variable("rpl_semi_sync_master_enabled") == "ON" ||
                      variable("rpl_semi_sync_source_enabled") == "ON";
    const bool lags = variable("log_bin") == "ON" && !semi && !c_.facts().galera;
    found_.add("replication",
               lags   ? "asynchronous, if there are replicas"
               : semi ? "semi-synchronous"
                      : "no binary log",
               good_if(!lags, Level::warning),
               "the promotion of a replica can lose the newest grants: semi-synchronous "
               "replication, or Galera");
  }

  void statements() {
    if (c_.facts().statement_log)
      found_.add("binlog_format", "STATEMENT", Level::warning,
                 "a replica may get other records than this server has, and more statements wait "
                 "for each other: set it to MIXED or ROW");
    if (traits_.recipe != "get-lock") return;
    // MySQL 8 ignores case in the names of locks, and MariaDB does not.
    const auto r = query(
        "SELECT GET_LOCK(CONCAT('dlock:DOCTOR:',CONNECTION_ID()),0),"
        "IS_USED_LOCK(CONCAT('dlock:doctor:',CONNECTION_ID())),"
        "RELEASE_LOCK(CONCAT('dlock:DOCTOR:',CONNECTION_ID()))");
    if (r && r->text(0) == "1")
      found_.add("names of locks", r->has(1) ? "compared without case" : "compared with case",
                 good_if(!r->has(1), Level::warning),
                 "keys that differ only in case are one lock here, for every program");
  }

  void clock() {
    const std::int64_t before = wall_micros();
    const auto now = query(fmt::format("SELECT {}", server_clock));
    const std::int64_t after = wall_micros();
    if (!now || !now->number<std::int64_t>(0)) return;
    apart_ = static_cast<double>(*now->number<std::int64_t>(0) - (before + after) / 2) / 1e6;
    found_.add("clock", fmt::format("{:+.3f} s against this host", *apart_),
               good_if(*apart_ < 1 && *apart_ > -1, Level::warning),
               "leases follow the server's clock alone, but a promoted server or another node must "
               "not be apart: synchronise them");
  }

  Connection& c_;
  const Traits& traits_;
  const Options& options_;
  const Deadline until_;
  SqlRows variables_;
  Findings found_;
  std::optional<double> apart_;
};

// Compares the hosts.
void compare(const std::vector<std::pair<Facts, double>>& all, Duration clock_skew,
             Findings& found) {
  double first = 0, last = 0;
  bool one = true;
  const auto& [facts, apart] = all.front();
  for (const auto& [other, its_apart] : all) {
    one &= other.galera && other.cluster == facts.cluster;
    first = std::min(first, its_apart - apart);
    last = std::max(last, its_apart - apart);
  }
  found.add("cluster", one ? facts.cluster : "the hosts do not belong to one",
            good_if(one, Level::bad),
            "several hosts in a URL are nodes of one Galera cluster: name one server");
  found.add(
      "clocks", fmt::format("{:.3f} s between the hosts", last - first),
      good_if(last - first < std::chrono::duration<double>(clock_skew).count(), Level::bad),
      "a lease of another ends ?clock_skew= late, which must be more: synchronise the clocks");
}

}  // namespace

Result<std::vector<Finding>> Client::examine(const Traits& traits) {
  const Options& options = options_;
  const Deadline until = usual_deadline();
  Findings found, silent;
  std::vector<std::pair<Facts, double>> nodes;
  Error last{Errc::unavailable, "no time was left to connect"};
  // Examine each host alone, and then report problems of all hosts together.
  for (const Endpoint& at : options.servers) {
    auto c = Connection::open(
        options, at, options.connect_timeout / static_cast<Duration::rep>(options.servers.size()));
    if (!c) {
      last = std::move(c.error());
      silent.add(at.text(), printable(last.message), Level::warning, "this host was not looked at");
      continue;
    }
    Examination one{**c, traits, options, until};
    TRY(all, nodes.empty() ? one.examine() : one.examine_other());
    found.add(std::move(all));
    nodes.emplace_back((*c)->facts(), one.apart().value_or(0));
    (*c)->close();
  }
  if (nodes.empty()) return fail(std::move(last));
  found.add(silent.extract());
  if (options.servers.size() > 1) compare(nodes, options.clock_skew, found);
  return found.extract();
}

}  // namespace dlock::mysql
