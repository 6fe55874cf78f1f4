// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include "mysql/client/connection.hpp"
#include "mysql/factory.hpp"
#include "stores/sql/sql.hpp"
#include "support/mariadb_server.hpp"

namespace dlock::test {

// The server of this program that the tests stop, kill and configure.
inline MariadbServer& server() {
  static MariadbServer one;
  return one;
}
inline std::string through(const Proxy& proxy, const Database& db) {
  return fmt::format("mysql://root@127.0.0.1:{}/{}", proxy.port(), db.name());
}

// What the doctor found about it.
inline Finding about(Backend& b, const std::string& what) {
  const auto found = b.doctor();
  if (!found) FAIL(found.error().message);
  for (const Finding& f : *found)
    if (f.what == what) return f;
  return {Finding::Level::unknown, what, "nothing said", ""};
}
using Level = Finding::Level;

// Whether, within 5 s, a statement waits for a row that another transaction has locked. The list of
// sessions cannot tell: a statement stays in it for a moment after its reply was sent.
inline bool one_waits_for_a_row(Database& db) {
  return becomes(
      [&] {
        return db.value(
                   "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE "
                   "VARIABLE_NAME='INNODB_ROW_LOCK_CURRENT_WAITS'") == "1";
      },
      5s);
}

inline void kill_session(Database& db, const std::string& id) {
  try {
    db.sql("KILL " + id);
  } catch (const std::runtime_error&) {}  // gone already
}
// Ends every session except the tests' own.
inline void kill_sessions(Database& db) {
  const auto all = db.sql(
      "SELECT ID FROM information_schema.processlist WHERE ID<>CONNECTION_ID() AND DB=DATABASE()");
  for (std::size_t i = 0; i < all.rows.size(); ++i) kill_session(db, std::string{all.text(0, i)});
}

// ---- what the cases of ../sql need to know -----------------------------------------------------

using Server = MariadbServer;
using Db = Database;
inline const auto open_recipe = [](const std::string& url, const Settings& settings = {},
                                   std::string_view recipe = "lease") {
  return open_mysql(url, settings, recipe);
};
inline std::string count_sessions(Database& db) {
  return db.value("SELECT COUNT(*) FROM information_schema.processlist WHERE DB=DATABASE()");
}
// Whether a waiter sleeps in the server.
inline bool one_sleeps(Database& db) {
  return db.value(
             "SELECT COUNT(*) FROM information_schema.processlist WHERE DB=DATABASE() AND "
             "STATE='User lock'") == "1";
}
// A prepared statement is held with its values alone.
inline const char* release_of_k(int grants) { return grants < 2 ? "UPDATE dlock_lock" : "dlock:k"; }
inline constexpr const char* release_statement = "UPDATE dlock_lock";
inline constexpr LostGrant lost_grants[] = {
    {"k", "UPDATE dlock_lock SET state=", false, 0},  // free: one statement
    {"k", "UPDATE dlock_lock SET state=", true, 0},
    {"k", "dlock1 k", false, 2},
    {"k", "dlock1 k", true, 2},
    {"new", "UPDATE dlock_lock l SET state=", false, 0},  // its one statement finds no row
    {"q", "UPDATE dlock_lock l SET state=", true, 0}};
inline Duration recorded_rest_of_k(Database& db) {
  return Duration{std::stoll(db.value(fmt::format(
      "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(state,'\\nH ',-1),' ',8),' ',-1) - "
      "{} FROM dlock_lock WHERE name='dlock:k'",
      mysql::server_clock)))};
}

inline constexpr const char* session_recipes[] = {"get-lock", "for-update"};
// Named locks are the server's, not the database's.
inline std::string url_of(const std::string& url, const Database& db, std::string_view recipe) {
  return recipe == "get-lock" ? url + "?prefix=" + db.name() + ":" : url;
}
inline std::string holders_session(Database& db, std::string_view recipe) {
  return db.value(recipe == "get-lock" ? "SELECT conn FROM dlock_named WHERE owner<>''"
                                       : "SELECT conn FROM dlock_grant WHERE owner<>''");
}

}  // namespace dlock::test
