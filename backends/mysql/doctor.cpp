// SPDX-License-Identifier: Apache-2.0
#include "mysql/doctor.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include "core/text.hpp"
#include "mysql/foreign/named_backend.hpp"
#include "mysql/lease/lease_table.hpp"

namespace dlock::mysql {
namespace {

using Level = Finding::Level;

constexpr long least_wait_timeout = 30;  // seconds

class Examination {
 public:
  Examination(Connection& c, const Traits& traits, const Options& options, Deadline until)
      : c_(c), traits_(traits), options_(options), until_(until) {
    if (options.servers.size() > 1) of_ = " of " + c.at().text();
  }

  Result<std::vector<Finding>> examine() {
    TRY(all, c_.query("examine", "SHOW VARIABLES", until_));
    variables_ = std::move(all);
    add(Level::good, "server", c_.facts().version, "");
    read_only();
    tables();
    isolation();
    time_outs();
    durability();
    cluster();
    proxy();
    replication();
    binary_log();
    names();
    clock();
    return std::move(found_);
  }

  // Checks that may differ from host to host.
  std::vector<Finding> examine_other() {
    read_only();
    cluster();
    clock();
    return std::move(found_);
  }
  // The server's clock less this host's, in seconds.
  std::optional<double> apart() const noexcept { return apart_; }

 private:
  std::string value(std::string_view name) const {
    for (std::size_t i = 0; i < variables_.rows.size(); ++i)
      if (variables_.text(0, i) == name) return std::string{variables_.text(1, i)};
    return "";
  }
  void add(Level level, std::string what, std::string seen, std::string advice) {
    found_.push_back({level, what + of_, printable(seen), std::move(advice)});
  }
  bool by_connection() const { return traits_.liveness == Liveness::connection; }

  void read_only() {
    if (c_.facts().read_only)
      add(Level::bad, "read_only", "ON: nothing is granted here",
          "use the server that writes: locks are rows, and a replica lags");
    else add(Level::good, "read_only", "OFF", "");
  }

  // The tables of this recipe, and the foreign one.
  std::vector<std::string> own_tables() const {
    if (traits_.recipe == "lease") return {"dlock_lock", "dlock_wait"};
    if (traits_.recipe == "get-lock") return {"dlock_named"};
    if (traits_.recipe == "for-update" && options_.table.empty())
      return {"dlock_grant", "dlock_row"};
    if (traits_.recipe == "for-update") return {"dlock_grant"};
    if (traits_.recipe == "insert" && options_.table.empty())
      return {"dlock_insert", "method_lock"};
    if (traits_.recipe == "insert") return {"dlock_insert"};
    return options_.table.empty() ? std::vector<std::string>{"dlock_version"}
                                  : std::vector<std::string>{};
  }

  void tables() {
    std::string missing;
    std::vector<std::string> all = own_tables();
    const std::size_t own = all.size();
    if (!options_.table.empty()) all.push_back(options_.table);
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto engine = c_.query("examine", engine_of(all[i]), until_);
      if (!engine) return add(Level::unknown, "tables", "may not be looked at", "");
      if (engine->rows.empty() && i >= own)
        add(Level::bad, "table " + all[i], "missing",
            "it belongs to the program that is to be excluded: ?table= may be wrong");
      else if (engine->rows.empty()) missing += (missing.empty() ? "" : ", ") + all[i];
      // whose table lives as long as the locks it tells of
      else if (engine->text(1) == "NO" && traits_.recipe != "get-lock")
        add(Level::bad, "table " + all[i], fmt::format("engine {}", engine->text(0)),
            "it has no transactions, so it locks no rows and a crash may empty it: ALTER TABLE ... "
            "ENGINE=InnoDB");
    }
    if (missing.empty()) {
      rights();
      return add(Level::good, "tables", "there", "");
    }
    const auto may = may_create();
    if (may) return add(Level::good, "tables", missing + " missing: made at the first use", "");
    add(may.error() ? Level::warning : Level::bad, "tables",
        fmt::format("{} missing, and {}", missing,
                    may.error() ? "whether this account may make them is not known"
                                : "this account may not make them"),
        "another account must run the statements of dlock-mysql(7)");
  }

  // Statements that need a right and change no row.
  void rights() {
    if (traits_.recipe != "lease" || c_.facts().read_only) return;
    std::string denied;
    for (const auto& [right, sql] :
         {std::pair{"SELECT", "SELECT 1 FROM dlock_lock, dlock_wait LIMIT 0"},
          {"INSERT on dlock_lock",
           "INSERT INTO dlock_lock (name,version,fence,state,updated) SELECT '',0,0,'',0 FROM DUAL "
           "WHERE 0"},
          {"INSERT on dlock_wait",
           "INSERT INTO dlock_wait (name,owner,mode,permits,live,since,who) SELECT "
           "'','','',0,0,0,'' FROM DUAL WHERE 0"},
          {"UPDATE on dlock_lock", "UPDATE dlock_lock SET fence=fence WHERE 0"},
          {"UPDATE on dlock_wait", "UPDATE dlock_wait SET live=live WHERE 0"},
          {"DELETE on dlock_wait", "DELETE FROM dlock_wait WHERE 0"}})
      if (const auto done = c_.query("examine", sql, until_);
          !done && done.error().code == Errc::denied)
        denied += fmt::format("{}{}", denied.empty() ? "" : ", ", right);
    if (denied.empty()) return add(Level::good, "rights", "enough", "");
    add(Level::bad, "rights", "missing: " + denied, "grant what dlock-mysql(7) lists");
  }

  // The error: true if it depends on roles, whose rights are not examined.
  tl::expected<void, bool> may_create() {
    const std::string me =
        "CONCAT(CHAR(39),LEFT(CURRENT_USER(),CHAR_LENGTH(CURRENT_USER())-CHAR_LENGTH(SUBSTRING_"
        "INDEX(CURRENT_USER(),'@',-1))-1),CHAR(39),'@',CHAR(39),SUBSTRING_INDEX(CURRENT_USER(),'@',"
        "-1),CHAR(39))";
    auto r = c_.query(
        "examine",
        fmt::format(
            "SELECT 1 FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE='CREATE' AND "
            "GRANTEE={0} UNION SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES WHERE "
            "PRIVILEGE_TYPE='CREATE' AND DATABASE() LIKE TABLE_SCHEMA AND GRANTEE={0}",
            me),
        until_);
    if (r && !r->rows.empty()) return {};
    auto role = c_.query("examine", "SELECT CURRENT_ROLE()", until_);
    return tl::make_unexpected(!r || !role || (role->has(0) && role->text(0) != "NONE"));
  }

  // dlock sets it for its sessions; a proxy in between may override that.
  void isolation() {
    const std::string level =
        value("tx_isolation").empty() ? value("transaction_isolation") : value("tx_isolation");
    const bool good = level == (c_.facts().statement_log ? "REPEATABLE-READ" : "READ-COMMITTED");
    add(good ? Level::good : Level::bad, "isolation", level,
        good ? ""
             : "the session was set to another level and is not: connect to the server itself");
  }

  void binary_log() {
    if (!c_.facts().statement_log) return;
    add(Level::warning, "binlog_format", "STATEMENT",
        "a replica may get other records than this server has, and more statements wait for each "
        "other: set it to MIXED or ROW");
  }

  // MySQL 8 compares the names of locks without case, MariaDB with.
  void names() {
    if (traits_.recipe != "get-lock") return;
    auto r =
        c_.query("examine",
                 "SELECT "
                 "GET_LOCK(CONCAT('dlock:DOCTOR:',CONNECTION_ID()),0),IS_USED_LOCK(CONCAT('dlock:"
                 "doctor:',CONNECTION_ID())),RELEASE_LOCK(CONCAT('dlock:DOCTOR:',CONNECTION_ID()))",
                 until_);
    if (!r || r->text(0) != "1") return;
    add(r->has(1) ? Level::warning : Level::good, "names of locks",
        r->has(1) ? "compared without case" : "compared with case",
        r->has(1) ? "keys that differ only in case are one lock here, for every program" : "");
  }

  void time_outs() {
    const std::string names = value("max_connections");
    const long most = std::atol(names.c_str());
    add(most >= 100 ? Level::good : Level::warning, "max_connections", names,
        most >= 100 ? "" : "each holder and each waiter needs a connection");
    // This session sees its own value; the global value is what other clients get.
    auto global = c_.query("examine", "SHOW GLOBAL VARIABLES LIKE 'wait_timeout'", until_);
    const std::string seen = global ? std::string{global->text(1)} : "?";
    // dlock's sessions have their own, set for each ttl.
    const bool small = global && std::atol(seen.c_str()) < least_wait_timeout;
    add(small ? Level::warning : Level::good, "wait_timeout", seen,
        !small            ? ""
        : by_connection() ? "dlock sets its own, but other programs that use this lock lose it "
                            "after this many seconds of silence: raise it"
                          : "dlock sets its own once it is connected; a server that closes so soon "
                            "may do so before: raise it");
    const long kill_idle = std::atol(value("idle_transaction_timeout").c_str());
    if (traits_.recipe == "for-update" && kill_idle > 0)
      add(Level::bad, "idle_transaction_timeout", value("idle_transaction_timeout"),
          "the server ends an open transaction after so many seconds, and the lock with it: set it "
          "to 0");
    const std::string statement = value("max_statement_time");
    if (!statement.empty() && std::atof(statement.c_str()) > 0)
      add(Level::warning, "max_statement_time", statement,
          "the server ends waits after so many seconds; waiters ask again");
  }

  void durability() {
    const std::string flush = value("innodb_flush_log_at_trx_commit");
    if (flush == "1" || by_connection())
      add(Level::good, "innodb_flush_log_at_trx_commit", flush, "");
    else
      add(Level::warning, "innodb_flush_log_at_trx_commit", flush,
          "a crash of the machine can forget the last second's grants: set it to 1");
  }

  void cluster() {
    if (!c_.facts().galera) {
      const bool several = options_.servers.size() > 1;
      add(several ? Level::bad : Level::good, "wsrep_on", "OFF",
          several ? "several hosts in a URL are nodes of one Galera cluster; separate servers do "
                    "not exclude each other: name one"
                  : "");
      return;
    }
    if (traits_.recipe == "get-lock" || traits_.recipe == "for-update")
      add(Level::bad, "wsrep_on", "ON",
          "named locks and row locks are known to one node of the cluster only: use recipe lease");
    else if (traits_.recipe == "lease") add(Level::good, "wsrep_on", "ON: waiters poll", "");
    else add(Level::good, "wsrep_on", "ON: leases end ?clock_skew= later", "");
    auto status = c_.query("examine",
                           "SHOW STATUS WHERE Variable_name IN "
                           "('wsrep_ready','wsrep_cluster_status','wsrep_cluster_size')",
                           until_);
    for (std::size_t i = 0; status && i < status->rows.size(); ++i) {
      const std::string what{status->text(0, i)}, seen{status->text(1, i)};
      const bool good = seen == "ON" || seen == "Primary" ||
                        (what == "wsrep_cluster_size" && std::atoi(seen.c_str()) >= 3);
      add(good                           ? Level::good
          : what == "wsrep_cluster_size" ? Level::warning
                                         : Level::bad,
          what, seen,
          good ? "" : "a cluster needs three nodes, and most of them in its primary component");
    }
  }

  void proxy() {
    if (!c_.facts().proxied) return add(Level::good, "proxy", "none that shares connections", "");
    add(by_connection() ? Level::bad : Level::warning, "proxy",
        "the server has another id for this connection",
        by_connection() ? "a lock would end up with the next user of that connection: connect to "
                          "the server itself, or use recipe lease"
                        : "waiters poll; connect to the server itself for a wake-up");
  }

  void replication() {
    auto replica = c_.query(
        "examine", c_.facts().mariadb ? "SHOW SLAVE STATUS" : "SHOW REPLICA STATUS", until_);
    if (!replica) {
      add(Level::unknown, "replication", "may not be asked",
          "grant REPLICA MONITOR (REPLICATION CLIENT on MySQL) to see it");
    } else if (!replica->rows.empty()) {
      add(Level::bad, "replication", "this server is a replica",
          "use the server that writes: a replica learns of a grant later");
    } else {
      const bool logs = value("log_bin") == "ON";
      const bool semi = value("rpl_semi_sync_master_enabled") == "ON" ||
                        value("rpl_semi_sync_source_enabled") == "ON";
      if (logs && !semi && !c_.facts().galera)
        add(Level::warning, "replication", "asynchronous, if there are replicas",
            "the promotion of a replica can lose the newest grants: semi-synchronous replication, "
            "or Galera");
      else add(Level::good, "replication", semi ? "semi-synchronous" : "no binary log", "");
    }
  }

  void clock() {
    const std::int64_t before = wall_micros();
    auto now = c_.query("examine", fmt::format("SELECT {}", server_clock), until_);
    const std::int64_t after = wall_micros();
    if (!now || !now->number(0)) return;
    const double apart = static_cast<double>(*now->number(0) - (before + after) / 2) / 1e6;
    apart_ = apart;
    const bool small = apart < 1 && apart > -1;
    add(small ? Level::good : Level::warning, "clock",
        fmt::format("{:+.3f} s against this host", apart),
        small ? ""
              : "leases follow the server's clock alone, but a promoted server or another node "
                "must not be apart: synchronise them");
  }

  Connection& c_;
  const Traits& traits_;
  const Options& options_;
  const Deadline until_;
  Answer variables_;
  std::vector<Finding> found_;
  std::string of_;  // appended to the name of a finding, with several hosts
  std::optional<double> apart_;
};

// Checks across hosts.
std::vector<Finding> compare(const std::vector<std::pair<Facts, double>>& all,
                             const Options& options) {
  std::vector<Finding> found;
  double first = 0, last = 0;
  bool one = true;
  for (const auto& [facts, apart] : all) {
    one &= facts.galera && facts.cluster == all.front().first.cluster;
    first = std::min(first, apart - all.front().second);
    last = std::max(last, apart - all.front().second);
  }
  found.push_back(
      one ? Finding{Level::good, "cluster", all.front().first.cluster, ""}
          : Finding{Level::bad, "cluster", "the hosts do not belong to one",
                    "several hosts in a URL are nodes of one Galera cluster: name one server"});
  const double skew = std::chrono::duration<double>(options.clock_skew).count();
  const bool small = last - first < skew;
  found.push_back({small ? Level::good : Level::bad, "clocks",
                   fmt::format("{:.3f} s between the hosts", last - first),
                   small ? ""
                         : "a lease of another ends ?clock_skew= late, which must be more: "
                           "synchronise the clocks"});
  return found;
}

}  // namespace

Result<std::vector<Finding>> examine(Client& client, const Traits& traits) {
  const Options& options = client.options();
  const Deadline until = client.usual_deadline();
  std::vector<Finding> found;
  std::vector<std::pair<Facts, double>> seen;
  Error last{Errc::unavailable, "no time was left to connect"};
  std::vector<Finding> silent;
  // each by itself: problems of their set are reported, too
  for (const Server& at : options.servers) {
    auto c = Connection::open(
        options, at, options.connect_timeout / static_cast<Duration::rep>(options.servers.size()));
    if (!c) {
      last = std::move(c.error());
      silent.push_back(
          {Level::warning, at.text(), printable(last.message), "this host was not looked at"});
      continue;
    }
    Examination one{**c, traits, options, until};
    if (seen.empty()) {
      auto all = one.examine();
      if (!all) return all;
      found = std::move(*all);
    } else {
      auto more = one.examine_other();
      found.insert(found.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
    }
    seen.emplace_back((*c)->facts(), one.apart().value_or(0));
    (*c)->close();
  }
  if (seen.empty()) return fail(std::move(last));
  found.insert(found.end(), std::make_move_iterator(silent.begin()),
               std::make_move_iterator(silent.end()));
  if (options.servers.size() > 1) {
    auto more = compare(seen, options);
    found.insert(found.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  }
  return found;
}

}  // namespace dlock::mysql
