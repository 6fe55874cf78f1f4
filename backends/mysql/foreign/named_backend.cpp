// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/named_backend.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/duration.hpp"
#include "mysql/doctor.hpp"

namespace dlock::mysql {

std::string engine_of(const std::string& table) {
  return fmt::format(
      "SELECT t.ENGINE,e.TRANSACTIONS FROM information_schema.TABLES t LEFT JOIN "
      "information_schema.ENGINES e ON e.ENGINE=t.ENGINE WHERE t.TABLE_SCHEMA=DATABASE() AND "
      "t.TABLE_NAME={}",
      text_hex(table));
}

Error NamedBackend::refuse(std::string_view what) const {
  return {Errc::usage, fmt::format("mysql, recipe {}: {}", traits_.recipe, what)};
}

Result<void> NamedBackend::accept(const Request& r, std::size_t longest) const {
  TRY_VOID(can_serve(traits_, r));
  if (name_of(r.key).size() > longest)
    return fail(refuse(fmt::format("prefix and key have at most {} bytes", longest)));
  return {};
}

Result<LockRow> NamedBackend::look(Connection& c, const std::string& name, Deadline until) {
  judge_by(c);
  auto r = c.query(
      "look",
      fmt::format("SELECT r.fence,r.owner,r.conn,r.granted,r.until,r.who,{},COALESCE(r.owner<>'' "
                  "AND {},0),COALESCE({},0) FROM (SELECT 1 AS one) x LEFT JOIN {} r ON r.name={}",
                  server_clock, in_force(name), held(name), table_, hex(name)),
      until);
  LockRow seen;
  if (!r && c.remedy() == Remedy::create) return seen;  // no table: never used here
  if (!r) return fail(std::move(r.error()));
  seen.exists = r->has(0);
  seen.fence = r->unsigned_number(0).value_or(0);
  seen.owner = r->text(1);
  seen.conn = r->unsigned_number(2).value_or(0);
  seen.granted = r->number(3).value_or(0);
  seen.until = r->number(4).value_or(0);
  seen.who = Identity::decode(r->text(5));
  seen.now = r->number(6).value_or(0);
  seen.ours = r->text(7) == "1";
  seen.held = seen.ours || r->text(8) == "1";
  seen.ending = seen.held && !seen.ours && !seen.owner.empty() && seen.until <= seen.now &&
                after(seen.until, skew_) > seen.now;
  TRY_VOID(look_closer(c, name, seen, until));
  return seen;
}

Result<LockRow> NamedBackend::look(const std::string& name) {
  const Deadline until = client_.usual_deadline();
  return client_.run<LockRow>(until, "", [&](Connection& c) { return look(c, name, until); });
}

HolderView NamedBackend::view(const LockRow& r) {
  HolderView h;
  if (!r.ours) return h;
  h.id = r.owner.substr(0, 8);
  h.token = r.fence;
  h.who = r.who;
  h.remaining = Duration{std::max<Micros>(0, r.until - r.now)};
  if (r.now >= r.granted) h.held = Duration{r.now - r.granted};
  return h;
}

std::vector<std::string> NamedBackend::notes(const LockRow& r) const {
  std::vector<std::string> out;
  if (r.ending) out.push_back("its time is over; on Galera it ends ?clock_skew= later");
  else if (r.held && !r.ours) out.push_back("held by another program");
  return out;
}

Result<Validity> NamedBackend::check(const Key& key, const GrantId& id) {
  TRY(r, look(name_of(key)));
  const auto* owner = std::get_if<Owner>(&id);
  const bool same = owner ? r.owner == owner->hex() : r.fence == std::get<FencingToken>(id);
  return r.ours && same ? Validity::valid : Validity::stale;
}

Result<std::optional<KeyView>> NamedBackend::inspect(const Key& key) {
  TRY(r, look(name_of(key)));
  if (!r.exists && !r.held) return std::optional<KeyView>{};
  KeyView v;
  v.key = key.text();
  v.fence = r.fence;
  v.waiters_known = false;
  if (r.held) v.holders.push_back(view(r));
  v.notes = notes(r);
  return std::optional{std::move(v)};
}

Result<std::vector<std::string>> NamedBackend::names() {
  const std::string& prefix = client_.options().prefix;
  TRY_VOID(can_list(prefix));
  std::vector<std::string> names;
  for (const Rows& kept : rows()) {
    TRY(found, client_.run_if_there<Answer>([&](Connection& c) {
      return c.query(
          "list",
          fmt::format("SELECT `{0}` FROM `{1}` WHERE LEFT(CAST(`{0}` AS BINARY),{2})={3}{4}",
                      kept.column, kept.table, prefix.size(), hex(prefix), kept.also),
          client_.usual_deadline());
    }));
    for (std::size_t i = 0; i < found.rows.size(); ++i)
      names.emplace_back(found.text(0, i).substr(prefix.size()));
  }
  return names;
}

Result<std::optional<KeyView>> NamedBackend::inspect_name(const std::string& name) {
  TRY(view, Backend::inspect_name(name));
  if (!view && Key::parse(name)) {  // a foreign row that is not locked now
    view.emplace();
    view->key = name;
    view->waiters_known = false;
  }
  return std::move(view);
}

std::string NamedBackend::who(const Request& r) {
  std::string text = r.identity.encode();
  return text.size() <= 512 ? text : "";
}

// One statement, so that no other grant comes between reading the newest token and writing the
// next.
Result<std::optional<FencingToken>> NamedBackend::record(Connection& c, const std::string& name,
                                                         const Request& r, const std::string& from,
                                                         const std::string& conn, Deadline until,
                                                         bool again) {
  std::string next = "GREATEST(fence+1,VALUES(fence))";
  if (again) next = fmt::format("IF(owner='{}',fence,{})", r.owner.hex(), next);
  TRY(answer,
      c.query(
          "record the grant",
          fmt::format("SET @writes={};"
                      "INSERT INTO {}(name,fence,owner,conn,granted,until,who) SELECT "
                      "{},LAST_INSERT_ID({}),'{}',{},{},{}+{},{} FROM {} ON DUPLICATE KEY UPDATE "
                      "fence=LAST_INSERT_ID({}),owner=VALUES(owner),conn=VALUES(conn),"
                      "granted=VALUES(granted),until=VALUES(until),who=VALUES(who)",
                      server_writes, table_, hex(name), server_clock, r.owner.hex(), conn,
                      server_clock, server_clock, r.ttl.count(), hex(who(r)), from, next),
          until));
  if (answer.affected == 0) return std::optional<FencingToken>{};
  return std::optional<FencingToken>{answer.insert_id};
}

Result<void> NamedBackend::erase(const Key& key) {
  for (const Rows& kept : rows()) TRY_VOID(client_.erase(kept, name_of(key)));
  return {};
}

Result<std::vector<Finding>> NamedBackend::doctor() { return examine(client_, traits_); }

}  // namespace dlock::mysql
