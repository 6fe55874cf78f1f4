// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/for_update_backend.hpp"
#include <fmt/format.h>
#include <mysqld_error.h>
#include <algorithm>
#include <iterator>
#include "mysql_schema/schema.hpp"

namespace dlock::mysql {

namespace {

constexpr std::chrono::seconds longest_wait{10};  // then the server ends the wait

Rows rows_of(const Options& o) {
  if (o.table.empty()) return {"dlock_row", "name"};
  Rows r{o.table, o.key_column, {}, true};
  for (const auto& [column, value] : o.conditions)
    fmt::format_to(std::back_inserter(r.also), " AND `{}`={}", column, text_hex(value));
  return r;
}

}  // namespace

ForUpdateBackend::ForUpdateBackend(const Traits& traits, Options options)
    : HeldBackend(traits, options, schema::for_update, "dlock_grant"), locked_(rows_of(options)) {}

std::string ForUpdateBackend::row(const std::string& name) const {
  return fmt::format("`{}` WHERE `{}`={}{}", locked_.table, locked_.column,
                     locked_.text ? text_hex(name) : hex(name), locked_.also);
}

// Inserts the row by a statement that is committed at once. If the row were missing, two
// transactions that lock it would wait for each other.
Result<void> ForUpdateBackend::make_row(Connection& c, const std::string& name, Deadline until) {
  const Options& o = client_.options();
  std::string sql = fmt::format("INSERT INTO dlock_row(name) VALUES({})", hex(name));
  if (!o.table.empty()) {
    std::string columns = fmt::format("`{}`", o.key_column), values = text_hex(name);
    for (const auto& [column, value] : o.conditions) {
      columns += fmt::format(",`{}`", column);
      values += "," + text_hex(value);
    }
    sql = fmt::format("INSERT INTO `{}`({}) VALUES({})", o.table, columns, values);
  }
  auto made = c.query("make the row", sql, until);
  if (made || c.error_number() == ER_DUP_ENTRY) return {};
  if (c.error_number() == ER_NO_SUCH_TABLE && !o.table.empty())
    return fail(Errc::cannot_create,
                "{}: there is no table {}; it belongs to the program that is to be excluded",
                client_.options().where, o.table);
  if (c.error_number() == ER_NO_DEFAULT_FOR_FIELD)
    return fail(
        cannot(fmt::format("table {} has no row for this key, and one cannot be made because other "
                           "columns need values",
                           o.table)));
  return fail(std::move(made.error()));
}

Result<void> ForUpdateBackend::set_up(Connection& c, const std::string& name, Deadline until) {
  TRY_VOID(
      c.query("connect", until, "SET SESSION innodb_lock_wait_timeout={}", longest_wait.count()));
  if (const std::string& table = client_.options().table; !table.empty()) {
    TRY(engine, c.query("look at the table", engine_of(table), until));
    if (engine.text(1) == "NO")
      return fail(cannot(
          fmt::format("table {} is of engine {}, which locks no rows, so it would not exclude",
                      table, engine.text(0))));
  }
  // Reads the table of the records, too, so that a missing table is created now. If the table were
  // created later, this would end the transaction.
  auto there = c.query("look", until, "SELECT 1 FROM {0} WHERE name={1}; SELECT 1 FROM {2}", table_,
                       hex(name), row(name));
  if (!there) return fail(std::move(there.error()));
  return there->rows.empty() ? make_row(c, name, until) : Result<void>{};
}

// Finds foreign holders: it tries to lock the row for a moment, without waiting.
Result<void> ForUpdateBackend::probe(Connection& c, const std::string& name, LockRow& r,
                                     Deadline until) {
  if (r.ours) return {};
  // autocommit: the lock is released at once
  auto tried = c.query("look", until, "SELECT 1 FROM {} FOR UPDATE NOWAIT", row(name));
  if (!tried &&
      (c.error_number() == ER_LOCK_WAIT_TIMEOUT || c.error_number() == mysql_lock_nowait)) {
    r.held = true;
    r.stays_because =
        "a transaction of another program has the row, and the lock ends with that transaction";
    return {};
  }
  if (!tried && c.remedy() == Remedy::create) return {};
  if (!tried) return fail(std::move(tried.error()));
  return {};
}

Result<std::optional<FencingToken>> ForUpdateBackend::try_now(Connection& c,
                                                              const std::string& name,
                                                              const Request& r, Deadline until) {
  for (int missing = 0;; ++missing) {
    auto locked = c.query("acquire", until, "START TRANSACTION; SELECT 1 FROM {} FOR UPDATE NOWAIT",
                          row(name));
    if (locked && !locked->rows.empty()) break;
    const unsigned number = c.error_number();
    Result<SqlRows> problem = std::move(locked);
    if (!c.broken()) TRY_VOID(undo(c, name, until));
    if (!problem && (number == ER_LOCK_WAIT_TIMEOUT || number == mysql_lock_nowait))
      return std::nullopt;
    if (!problem) return fail(std::move(problem.error()));
    if (missing > 2) return fail(Errc::unavailable, "the row is deleted again and again");
    // The row was deleted, so make it again.
    TRY_VOID(make_row(c, name, until));
  }
  return record_grant(c, name, r, until);
}

Result<Duration> ForUpdateBackend::send_wait(Connection& c, const Request& r) {
  TRY_VOID(c.query("acquire", "START TRANSACTION", client_.usual_deadline()));
  TRY_VOID(c.send("wait", fmt::format("SELECT 1 FROM {} FOR UPDATE", row(name_of(r.key)))));
  return longest_wait + std::chrono::seconds{2};  // some servers check timeouts once per second
}
bool ForUpdateBackend::was_granted(const SqlRows& a) const { return !a.rows.empty(); }

// Another session commits the record, so that the token stays when the transaction breaks. The
// record must not replace the record of a later holder of the row. Suppose session A has lost the
// row (killed, cut off, timed out), B has the row, and the write of A's record arrives late:
//  1. A session reads the newest token while it has the row locked. A dead session reads nothing. B
//     reads later than A, so the token that B reads is not smaller.
//  2. Each write names the token that its session read. If B wrote first, A's write finds another
//     token and changes nothing. If A wrote first, after B had read, B's write changes nothing. B
//     then reads again and writes a greater token. So the newest record is B's as soon as B is
//     granted anything.
//  3. A's write checks whether A's session has its named lock, so the record of a dead session is
//     usually never written.
//  4. After the write, the session is checked again: a session that was lost meanwhile is granted
//     nothing.
// With a statement-based binary log, the transaction keeps its first snapshot and cannot read a
// newer token. So each transaction tries only once.
Result<std::optional<FencingToken>> ForUpdateBackend::record_grant(Connection& c,
                                                                   const std::string& name,
                                                                   const Request& r,
                                                                   Deadline until) {
  const std::string lives = life_name(r.owner, name), session = std::to_string(c.facts().thread);
  while (Clock::now() < until) {
    const bool named = std::ranges::find(c.names, lives) != c.names.end();
    const auto found = c.query("acquire", until,
                               "SELECT {},CONNECTION_ID(),(SELECT fence FROM {} WHERE "
                               "name={}),(SELECT owner FROM {} WHERE name={} AND "
                               "conn=CONNECTION_ID()),{}",
                               named ? fmt::format("IS_USED_LOCK('{}')=CONNECTION_ID()", lives)
                                     : fmt::format("GET_LOCK('{}',2)", lives),
                               table_, hex(name), table_, hex(name), server_writes);
    if (!found) return fail(found.error());
    TRY_VOID(writable(c.where(), found->text(4) != "1"));
    if (found->text(0) != "1" || found->text(1) != session)
      return fail(Errc::unavailable,
                  "the named lock that proves the session alive could not be taken");
    if (!named) c.names.push_back(lives);
    const auto newest = found->number<std::uint64_t>(2);
    if (newest && found->text(3) == r.owner.hex()) return *newest;
    TRY(written, client_.run<SqlRows>(until, true, [&](Connection& beside) {
      return beside.query("record the grant", grant(name, r, newest, session), until);
    }));
    if (written.affected == 1) {
      TRY(still, c.query("acquire", until,
                         "SELECT IS_USED_LOCK('{}')=CONNECTION_ID(),CONNECTION_ID()", lives));
      if (still.text(0) == "1" && still.text(1) == session) return written.insert_id;
      return fail(Errc::unavailable, "the session was lost before its grant was recorded");
    }
    if (c.facts().statement_log) break;
  }
  return fail(Errc::unavailable, "others change the record of this lock all the time");
}

std::string ForUpdateBackend::grant(const std::string& name, const Request& r,
                                    std::optional<FencingToken> newest,
                                    const std::string& session) const {
  const std::string lives = fmt::format("IS_USED_LOCK('{}')={}", life_name(r.owner, name), session);
  if (!newest)
    return fmt::format(
        "INSERT IGNORE INTO {0}(name,fence,owner,conn,granted,until,who) SELECT "
        "{1},LAST_INSERT_ID({2}),'{3}',{4},{2},{2}+{5},{6} FROM DUAL WHERE {7}",
        table_, hex(name), server_clock, r.owner.hex(), session, r.ttl.count(), hex(identity_of(r)),
        lives);
  return fmt::format(
      "UPDATE {} SET "
      "fence=LAST_INSERT_ID(GREATEST(fence+1,{})),owner='{}',conn={},granted={},until=granted+{},"
      "who={} WHERE name={} AND fence={} AND {}",
      table_, server_clock, r.owner.hex(), session, server_clock, r.ttl.count(),
      hex(identity_of(r)), hex(name), *newest, lives);
}

Result<bool> ForUpdateBackend::heartbeat(Connection& c, const Lease& lease, Duration ttl,
                                         Deadline until) {
  const std::string name = name_of(lease.key);
  TRY_VOID(c.wait_timeout(ttl, until));
  TRY(alive, c.query("renew", until, "SELECT CONNECTION_ID(),IS_USED_LOCK('{}')=CONNECTION_ID()",
                     life_name(lease.owner, name)));
  if (alive.number<std::uint64_t>(0) != c.facts().thread || alive.text(1) != "1") return false;
  TRY(known, client_.run<SqlRows>(until, false, [&](Connection& beside) {
    return beside.query("renew", until, "UPDATE {} SET until={}+{} WHERE name={} AND owner='{}'",
                        table_, server_clock, ttl.count(), hex(name), lease.owner.hex());
  }));
  return known.affected == 1;
}

Result<bool> ForUpdateBackend::release_over(Connection& c, const Lease& lease, Deadline until) {
  const std::string name = name_of(lease.key);
  // Clear the record first, because after the release the next holder overwrites the record.
  auto cleared = client_.run<SqlRows>(until, false, [&](Connection& beside) {
    return beside.query("release", until, "UPDATE {} SET owner='' WHERE name={} AND owner='{}'",
                        table_, hex(name), lease.owner.hex());
  });
  TRY_VOID(undo(c, name, until));
  return cleared && cleared->affected == 1;
}

Result<void> ForUpdateBackend::undo(Connection& c, const std::string&, Deadline until) {
  std::string sql = "ROLLBACK";
  for (const auto& n : c.names) sql += fmt::format("; DO RELEASE_LOCK('{}')", n);
  TRY_VOID(c.query("release", sql, until));
  c.names.clear();
  return {};
}

}  // namespace dlock::mysql
