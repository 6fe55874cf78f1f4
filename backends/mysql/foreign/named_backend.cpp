// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/named_backend.hpp"
#include <fmt/format.h>
#include "core/duration.hpp"

namespace dlock::mysql {

std::string engine_of(const std::string& table) {
  return fmt::format(
      "SELECT t.ENGINE,e.TRANSACTIONS FROM information_schema.TABLES t LEFT JOIN "
      "information_schema.ENGINES e ON e.ENGINE=t.ENGINE WHERE t.TABLE_SCHEMA=DATABASE() AND "
      "t.TABLE_NAME={}",
      text_hex(table));
}

Result<void> NamedBackend::check_request(const Request& r) const {
  constexpr std::size_t longest = 255;  // the size of the column
  TRY_VOID(can_serve(traits_, r));
  if (name_of(r.key).size() > longest)
    return fail(cannot(fmt::format("prefix and key have at most {} bytes", longest)));
  return {};
}

Result<LockRow> NamedBackend::read_record(Connection& c, const std::string& name, Deadline until) {
  use_clock_of(c);
  const auto look = [&](std::string_view records) {
    return c.query("look", until,
                   "SELECT r.fence,r.owner,r.conn,r.granted,r.until,r.who,{},COALESCE(r.owner<>'' "
                   "AND {},0),COALESCE({},0) FROM (SELECT 1 AS one) x LEFT JOIN {} r ON r.name={}",
                   server_clock, in_force(name), held(name), records, hex(name));
  };
  auto r = look(table_);
  if (!r && c.remedy() == Remedy::create)  // dlock has no table here; others may hold the lock
    r = look("(SELECT 0 fence,'' owner,0 conn,0 granted,0 until,'' who,'' name FROM DUAL LIMIT 0)");
  LockRow found;
  if (!r && c.remedy() == Remedy::create) return found;  // the foreign table is missing, too
  if (!r) return fail(std::move(r.error()));
  found.exists = r->has(0);
  found.fence = r->number<std::uint64_t>(0).value_or(0);
  found.owner = r->text(1);
  found.conn = r->number<std::uint64_t>(2).value_or(0);
  found.granted = r->number<std::int64_t>(3).value_or(0);
  found.who = Identity::decode(r->text(5));
  found.now = r->number<std::int64_t>(6).value_or(0);
  const Micros until_then = r->number<std::int64_t>(4).value_or(0);
  found.left = until_then - found.now;
  found.ours = r->text(7) == "1";
  found.held = found.ours || r->text(8) == "1";
  found.ending = found.held && !found.ours && !found.owner.empty() && found.left <= 0 &&
                 after(until_then, skew_) > found.now;
  TRY_VOID(probe(c, name, found, until));
  return found;
}

Result<LockRecord> NamedBackend::read_record(Connection& c, const Key& key, Deadline until) {
  TRY(found, read_record(c, name_of(key), until));
  return LockRecord{std::move(found)};
}

Result<Released> NamedBackend::force_release(const Key& key, std::optional<FencingToken> token) {
  const std::string name = name_of(key);
  const Deadline until = client_.usual_deadline();
  return client_.run<Released>(until, false, [&](Connection& c) -> Result<Released> {
    TRY(r, read_record(c, name, until));
    if (!r.held || (token && (!r.ours || r.fence != *token))) return Released::was_not_held;
    TRY(done, force_over(c, name, r, until));
    return done ? Released::yes : Released::was_not_held;
  });
}

Result<std::vector<std::string>> NamedBackend::names() {
  const std::string& prefix = client_.options().prefix;
  TRY_VOID(can_list(prefix));
  std::vector<std::string> names;
  for (const Rows& kept : rows()) {
    TRY(found, client_.run_if_there<SqlRows>([&](Connection& c) {
      return c.query("list", client_.usual_deadline(),
                     "SELECT `{0}` FROM `{1}` WHERE LEFT(CAST(`{0}` AS BINARY),{2})={3}{4}",
                     kept.column, kept.table, prefix.size(), hex(prefix), kept.also);
    }));
    for (std::size_t i = 0; i < found.rows.size(); ++i)
      names.emplace_back(found.text(0, i).substr(prefix.size()));
  }
  return names;
}

Result<std::optional<KeyView>> NamedBackend::inspect_name(const std::string& name) {
  TRY(view, Backend::inspect_name(name));
  if (!view && Key::parse(name)) {  // This is a foreign row that is not locked now.
    view.emplace();
    view->key = name;
    view->waiters_known = false;
  }
  return std::move(view);
}

std::string NamedBackend::identity_of(const Request& r) {
  std::string text = r.identity.encode();
  return text.size() <= 512 ? text : "";
}

// Reads the newest token and writes the next token in one statement, so that no other grant can
// happen in between.
Result<std::optional<FencingToken>> NamedBackend::write_record(
    Connection& c, const std::string& name, const Request& r, const std::string& from,
    const std::string& conn, Deadline until, bool again) {
  std::string next = "GREATEST(fence+1,VALUES(fence))";
  if (again) next = fmt::format("IF(owner='{}',fence,{})", r.owner.hex(), next);
  TRY(answer, c.query("record the grant", until,
                      "SET @writes={};"
                      "INSERT INTO {}(name,fence,owner,conn,granted,until,who) SELECT "
                      "{},LAST_INSERT_ID({}),'{}',{},{},{}+{},{} FROM {} ON DUPLICATE KEY UPDATE "
                      "fence=LAST_INSERT_ID({}),owner=VALUES(owner),conn=VALUES(conn),"
                      "granted=VALUES(granted),until=VALUES(until),who=VALUES(who)",
                      server_writes, table_, hex(name), server_clock, r.owner.hex(), conn,
                      server_clock, server_clock, r.ttl.count(), hex(identity_of(r)), from, next));
  if (answer.affected == 0) return std::nullopt;
  return std::optional<FencingToken>{answer.insert_id};
}

Result<void> NamedBackend::erase(const Key& key) {
  for (const Rows& kept : rows()) TRY_VOID(client_.erase(kept, name_of(key)));
  return {};
}

}  // namespace dlock::mysql
