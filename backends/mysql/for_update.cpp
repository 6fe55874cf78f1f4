// SPDX-License-Identifier: Apache-2.0
#include "mysql/for_update.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include "mysql_schema/schema.hpp"

namespace dlock::mysql {

namespace {

Rows rows_of(const Options& o) {
  if (o.table.empty()) return {"dlock_row", "name"};
  Rows r{o.table, o.key_column, {}, true};
  for (const auto& [column, value] : o.where) fmt::format_to(std::back_inserter(r.also), " AND `{}`={}", column, text_hex(value));
  return r;
}

}  // namespace

ForUpdateBackend::ForUpdateBackend(const Traits& traits, Options options)
    : HeldBackend(traits, options, schema::for_update, "dlock_grant"), locked_(rows_of(options)) {}

Result<void> ForUpdateBackend::fit(const Facts& f) const {
  if (f.proxied)
    return fail(
        refuse("behind a proxy that shares connections nobody knows whose transaction it is; connect to the server itself"));
  return {};
}

std::string ForUpdateBackend::row(const std::string& name) const {
  return fmt::format("`{}` WHERE `{}`={}{}", locked_.table, locked_.column, locked_.text ? text_hex(name) : hex(name),
                     locked_.also);
}

// In a statement of its own that is committed at once: two who lock a missing row in their transactions would wait for each other.
Result<void> ForUpdateBackend::make_row(Connection& c, const std::string& name, Deadline until) {
  const Options& o = client_.options();
  std::string sql = fmt::format("INSERT INTO dlock_row(name) VALUES({})", hex(name));
  if (!o.table.empty()) {
    std::string columns = fmt::format("`{}`", o.key_column), values = text_hex(name);
    for (const auto& [column, value] : o.where) {
      columns += fmt::format(",`{}`", column);
      values += "," + text_hex(value);
    }
    sql = fmt::format("INSERT INTO `{}`({}) VALUES({})", o.table, columns, values);
  }
  auto made = c.query("make the row", sql, until);
  if (made || c.error_number() == 1062) return {};
  if (c.error_number() == 1146 && !o.table.empty())
    return fail(Errc::cannot_create, fmt::format("{}: there is no table {}; it belongs to the program that is to be excluded",
                                                 client_.options().where_text, o.table));
  if (c.error_number() == 1364)
    return fail(refuse(
        fmt::format("table {} has no row for this key, and one cannot be made because other columns need values", o.table)));
  return fail(std::move(made.error()));
}

Result<void> ForUpdateBackend::prepare(Connection& c, const std::string& name, Deadline until) {
  // Its own time-out is longer than our waits, so that a wait ends by KILL QUERY or by its grant.
  auto r = c.query("connect", "SET SESSION innodb_lock_wait_timeout=60", until);
  if (!r) return fail(std::move(r.error()));
  if (const std::string& table = client_.options().table; !table.empty()) {
    auto engine = c.query("look at the table", engine_of(table), until);
    if (!engine) return fail(std::move(engine.error()));
    if (engine->text(1) == "NO")
      return fail(
          refuse(fmt::format("table {} is of engine {}, which locks no rows: nobody would be excluded", table, engine->text(0))));
  }
  auto there = c.query("look", fmt::format("SELECT 1 FROM {}", row(name)), until);
  if (!there) return fail(std::move(there.error()));
  return there->rows.empty() ? make_row(c, name, until) : Result<void>{};
}

std::string ForUpdateBackend::in_force(const std::string&) const { return "IS_USED_LOCK(CONCAT('dl:',r.owner))=r.conn"; }

// Strangers: is the row locked? Asked for a moment only, without waiting.
Result<void> ForUpdateBackend::look_closer(Connection& c, const std::string& name, Record& r, Deadline until) {
  if (r.ours) return {};
  auto tried = c.query("look", fmt::format("SELECT 1 FROM {} FOR UPDATE NOWAIT", row(name)), until);  // autocommit: over at once
  if (!tried && (c.error_number() == 1205 || c.error_number() == 3572)) {
    r.held = true;
    return {};
  }
  if (!tried && c.remedy() == Remedy::create) return {};
  if (!tried) return fail(std::move(tried.error()));
  return {};
}

Result<std::optional<FencingToken>> ForUpdateBackend::try_now(Connection& c, const std::string& name, const Request& r,
                                                              Deadline until) {
  for (int missing = 0;; ++missing) {
    auto locked = c.query("acquire", fmt::format("START TRANSACTION; SELECT 1 FROM {} FOR UPDATE NOWAIT", row(name)), until);
    if (locked && !locked->rows.empty()) break;
    const unsigned number = c.error_number();
    Result<Answer> problem = std::move(locked);
    if (!c.broken())
      if (auto ok = undo(c, name, until); !ok) return fail(std::move(ok.error()));
    if (!problem && (number == 1205 || number == 3572)) return std::optional<FencingToken>{};
    if (!problem) return fail(std::move(problem.error()));
    if (missing > 2) return fail(Errc::unavailable, "somebody deletes the row all the time");
    if (auto ok = make_row(c, name, until); !ok) return fail(std::move(ok.error()));  // its row was deleted
  }
  auto token = note(c, name, r, until);
  if (!token) return fail(std::move(token.error()));
  return std::optional{*token};
}

Result<void> ForUpdateBackend::before_wait(Connection& c, const std::string&, Deadline until) {
  auto r = c.query("acquire", "START TRANSACTION", until);
  if (!r) return fail(std::move(r.error()));
  return {};
}
std::string ForUpdateBackend::wait(const std::string& name, double) const {
  return fmt::format("SELECT 1 FROM {} FOR UPDATE", row(name));
}
bool ForUpdateBackend::got(const Answer& a) const { return !a.rows.empty(); }

Result<FencingToken> ForUpdateBackend::note(Connection& c, const std::string& name, const Request& r, Deadline until) {
  auto lives = c.query("acquire", fmt::format("SELECT GET_LOCK('{}',2)", hold_name(r.owner)), until);
  if (!lives) return fail(std::move(lives.error()));
  if (lives->text(0) != "1") return fail(Errc::unavailable, "the named lock that tells that the session lives could not be had");
  c.names.push_back(hold_name(r.owner));
  const std::string session = std::to_string(c.facts().thread);
  auto token = client_.run<std::optional<FencingToken>>(
      until, schema_, [&](Connection& beside) { return record(beside, name, r, "", session, until); });
  if (!token) return fail(std::move(token.error()));
  return token->value_or(0);
}

Result<bool> ForUpdateBackend::beat(Connection& c, const std::string& name, const Owner& owner, Duration ttl, Deadline until) {
  auto alive =
      c.query("renew", fmt::format("SELECT CONNECTION_ID(),IS_USED_LOCK('{}')=CONNECTION_ID()", hold_name(owner)), until);
  if (!alive) return fail(std::move(alive.error()));
  if (alive->unsigned_number(0) != c.facts().thread || alive->text(1) != "1") return false;
  auto known = client_.run<Answer>(until, "", [&](Connection& beside) {
    return beside.query("renew",
                        fmt::format("UPDATE {} SET until={}+{} WHERE name={} AND owner='{}'", table_, server_clock, ttl.count(),
                                    hex(name), owner.hex()),
                        until);
  });
  if (!known) return fail(std::move(known.error()));
  return known->affected == 1;
}

Result<bool> ForUpdateBackend::give_up(Connection& c, const std::string& name, const Owner& owner, Deadline until) {
  // The record first: who is next overwrites it.
  auto cleared = client_.run<Answer>(until, "", [&](Connection& beside) {
    return beside.query(
        "release", fmt::format("UPDATE {} SET owner='' WHERE name={} AND owner='{}'", table_, hex(name), owner.hex()), until);
  });
  if (auto ok = undo(c, name, until); !ok) return fail(std::move(ok.error()));
  return cleared && cleared->affected == 1;
}

Result<void> ForUpdateBackend::undo(Connection& c, const std::string&, Deadline until) {
  std::string sql = "ROLLBACK";
  for (const auto& n : c.names) sql += fmt::format("; DO RELEASE_LOCK('{}')", n);
  auto r = c.query("release", sql, until);
  if (!r) return fail(std::move(r.error()));
  c.names.clear();
  return {};
}

}  // namespace dlock::mysql
