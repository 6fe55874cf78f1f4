// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include "postgresql/factory.hpp"
#include "stores/sql/sql.hpp"
#include "support/postgres_server.hpp"

namespace dlock::test {

// The server of this program that the tests stop, kill and configure.
inline PostgresServer& server() {
  static PostgresServer one;
  return one;
}
inline std::string through(const Proxy& proxy, const PostgresDatabase& db) {
  return fmt::format("postgresql://postgres@127.0.0.1:{}/{}", proxy.port(), db.name());
}

inline void kill_session(PostgresDatabase& db, const std::string& pid) {
  REQUIRE_FALSE(pid.empty());
  db.sql("SELECT pg_terminate_backend(" + pid + ")");
}
// Ends every session of the database except the asking one.
inline void kill_sessions(PostgresDatabase& db) {
  db.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname=current_database() AND "
      "pid<>pg_backend_pid()");
}

// ---- what the cases of ../sql need to know -----------------------------------------------------

using Server = PostgresServer;
using Db = PostgresDatabase;
inline const auto open_recipe = [](const std::string& url, const Settings& settings = {},
                                   std::string_view recipe = "lease") {
  return open_postgres(url, settings, recipe);
};
inline std::string count_sessions(PostgresDatabase& db) {
  return db.value("SELECT count(*) FROM pg_stat_activity WHERE datname=current_database()");
}
// Whether a waiter sleeps in the server.
inline bool one_sleeps(PostgresDatabase& db) {
  return db.value(
             "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE "
             "l.locktype='advisory' AND NOT l.granted AND a.datname=current_database()") == "1";
}
inline const char* release_of_k(int) { return "dlock_swap"; }
inline constexpr const char* release_statement = "dlock_swap";
inline constexpr LostGrant lost_grants[] = {{"k", "dlock_take", false, 1},
                                            {"k", "dlock_take", true, 1},
                                            {"new", "dlock_leave", false, 1},
                                            {"q", "dlock_leave", true, 1}};
inline Duration recorded_rest_of_k(PostgresDatabase& db) {
  return Duration{std::stoll(db.value(
      "SELECT split_part(substring(state from 'H .*'),' ',9)::bigint - "
      "(date_part('epoch',clock_timestamp())*1e6)::bigint FROM dlock_lock WHERE name='dlock:k'"))};
}

inline constexpr const char* session_recipes[] = {"advisory"};
inline std::string url_of(const std::string& url, const PostgresDatabase&, std::string_view) {
  return url;
}
// The sessions of dlock that have an advisory lock, or wait for one.
inline std::string sessions(PostgresDatabase& db, std::string_view which = "granted") {
  return db.value(fmt::format(
      "SELECT string_agg(DISTINCT l.pid::text,',') FROM pg_locks l JOIN pg_stat_activity a USING "
      "(pid) WHERE l.locktype='advisory' AND {} AND a.application_name='dlock' AND "
      "a.datname=current_database()",
      which));
}
inline std::string holders_session(PostgresDatabase& db, std::string_view) { return sessions(db); }

}  // namespace dlock::test
