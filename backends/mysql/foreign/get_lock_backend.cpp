// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/get_lock_backend.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/key.hpp"
#include "core/text.hpp"
#include "mysql_schema/schema.hpp"

namespace dlock::mysql {
namespace {

constexpr std::ptrdiff_t most_characters = 64;  // MySQL's limit; MariaDB's is 192 bytes

// Returns an SQL condition: this session has the named lock, or gets it now. A repeated statement
// does not take the lock again, because a lock that is taken twice must be released twice.
std::string has_or_gets(std::string_view lock) {
  return fmt::format("IF(IS_USED_LOCK({0})<=>CONNECTION_ID(),1,GET_LOCK({0},0))=1", lock);
}

// Returns the name of a lock: the key itself or, if the key exceeds the limit, its SHA-1.
std::string lock_name(const std::string& name) {
  const auto characters = std::ranges::count_if(name, [](char c) { return (c & 0xc0) != 0x80; });
  return characters <= most_characters && name.size() <= 192 ? name : "dlock:" + sha1_hex(name);
}
std::string in_sql(const std::string& name) { return text_hex(lock_name(name)); }

}  // namespace

std::string GetLockBackend::replaced_name(const Key& key) const {
  const std::string name = name_of(key), lock = lock_name(name);
  if (lock == name) return {};
  return fmt::format("{} is locked as {}, because a name has at most {} characters",
                     printable(key.text()), lock, most_characters);
}

GetLockBackend::GetLockBackend(const Traits& traits, Options options)
    : HeldBackend(traits, std::move(options), schema::get_lock, "dlock_named"),
      take_{"dlock_take_named",
            fmt::format("UPDATE {0} SET granted={1},fence=LAST_INSERT_ID(GREATEST(fence+1,{1})),"
                        "owner=?,conn=CONNECTION_ID(),until=granted+?,who=? WHERE name=? AND {2} "
                        "AND IF({3},{3},0)",
                        table_, server_clock, server_writes, has_or_gets("?"))},
      free_{"dlock_free_named", "DO RELEASE_LOCK(?),RELEASE_LOCK(?)"} {}

std::string GetLockBackend::in_force(const std::string& name) const {
  return fmt::format("IS_USED_LOCK({})=r.conn AND {}", in_sql(name), session_lives);
}
std::string GetLockBackend::held(const std::string& name) const {
  return fmt::format("IS_USED_LOCK({}) IS NOT NULL", in_sql(name));
}

// Takes the lock and writes the record in one statement. If the row of the record is missing, it
// creates the row, and the first token is the server's clock. There is less than one grant per
// microsecond, so after a restart of the server the new tokens are above the older ones.
Result<std::optional<FencingToken>> GetLockBackend::try_now(Connection& c, const std::string& name,
                                                            const Request& r, Deadline until) {
  std::optional<FencingToken> token;
  const std::string lives = life_name(r.owner, name);
  if (!c.facts().statement_log) {
    const Value lock = Text{lock_name(name)}, life = Text{lives};
    const Values values{Bytes{r.owner.hex()},
                        r.ttl.count(),
                        Bytes{identity_of(r)},
                        Bytes{name},
                        lock,
                        lock,
                        life,
                        life};
    TRY(answer, c.query("record the grant", take_, values, "", "", until));
    if (answer.affected > 0) token = answer.insert_id;
  }
  if (!token) {
    TRY(made, write_record(c, name, r,
                           fmt::format("DUAL WHERE @writes AND IF({},{},0)",
                                       has_or_gets(in_sql(name)), has_or_gets(text_hex(lives))),
                           "CONNECTION_ID()", until, false));
    token = made;
  }
  if (token) c.names = {lives};
  return token;
}

Result<Duration> GetLockBackend::send_wait(Connection& c, const Request& r) {
  constexpr std::chrono::seconds longest{10};
  TRY_VOID(c.send("wait",
                  fmt::format("SELECT GET_LOCK({},{})", in_sql(name_of(r.key)), longest.count())));
  return longest;
}
bool GetLockBackend::was_granted(const SqlRows& a) const { return a.text(0) == "1"; }

Result<std::optional<FencingToken>> GetLockBackend::record_grant(Connection& c,
                                                                 const std::string& name,
                                                                 const Request& r, Deadline until) {
  const std::string lives = life_name(r.owner, name);
  TRY(token,
      write_record(c, name, r,
                   fmt::format("DUAL WHERE @writes AND IF(IS_USED_LOCK({})=CONNECTION_ID(),{},0)",
                               in_sql(name), has_or_gets(text_hex(lives))),
                   "CONNECTION_ID()", until, false));
  if (!token)
    return fail(Errc::unavailable,
                "the named lock was taken away at once, or the server has become read-only");
  c.names = {lives};
  return std::move(token);
}

Result<bool> GetLockBackend::heartbeat(Connection& c, const Lease& lease, Duration ttl,
                                       Deadline until) {
  const std::string name = name_of(lease.key);
  TRY_VOID(c.wait_timeout(ttl, until));
  TRY(r, c.query("renew", until,
                 "UPDATE {} SET until={}+{} WHERE name={} AND owner='{}' AND "
                 "conn=CONNECTION_ID() AND IS_USED_LOCK({})=CONNECTION_ID()",
                 table_, server_clock, ttl.count(), hex(name), lease.owner.hex(), in_sql(name)));
  return r.affected == 1;
}

// Always returns true: the session was alive, so nobody could take the named lock away from it.
Result<bool> GetLockBackend::release_over(Connection& c, const Lease& lease, Deadline until) {
  TRY_VOID(undo(c, name_of(lease.key), until));
  return true;
}

Result<void> GetLockBackend::undo(Connection& c, const std::string& name, Deadline until) {
  const Value lock = Text{lock_name(name)};
  const Value life = c.names.empty() ? lock : Value{Text{c.names.front()}};
  TRY_VOID(c.query("release", free_, {life, lock}, "", "", until));
  c.names.clear();
  return {};
}

Result<std::uint64_t> GetLockBackend::session_of(Connection& c, const std::string& name,
                                                 Deadline until) {
  TRY(r, c.query("look", until, "SELECT IS_USED_LOCK({})", in_sql(name)));
  return r.number<std::uint64_t>(0).value_or(0);
}

}  // namespace dlock::mysql
