// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/version_backend.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "mysql_schema/schema.hpp"

namespace dlock::mysql {
namespace {

constexpr int most_conflicts = 20;

}  // namespace

VersionBackend::VersionBackend(const Traits& traits, Options options)
    : RowBackend(traits, options, options.table.empty() ? schema::version : std::string_view{},
                 options.table.empty() ? "dlock_version" : options.table) {}

Result<VersionBackend::Row> VersionBackend::read(Connection& c, const std::string& name,
                                                 Deadline until) {
  TRY(r, c.query("read the lock", until,
                 "SELECT version,fence,owner,until,{},{} FROM (SELECT 1 AS one) x LEFT "
                 "JOIN {} ON name={}",
                 server_clock, server_writes, table_, hex(name)));
  Row row;
  row.exists = r.has(0);
  row.version = r.number<std::uint64_t>(0).value_or(0);
  row.fence = r.number<std::uint64_t>(1).value_or(0);
  row.owner = r.text(2);
  row.until = r.number<std::int64_t>(3).value_or(0);
  row.now = r.number<std::int64_t>(4).value_or(0);
  row.read_only = r.text(5) != "1";
  return row;
}

// A server that has lost its last writes may use a version again for another grant. So the
// condition also names the token and the owner.
Result<bool> VersionBackend::write(Connection& c, const std::string& name, const Row& decided_on,
                                   const std::string& set, Deadline until) {
  TRY(r,
      c.query("write the lock", until,
              "UPDATE {} SET version=version+1,{} WHERE name={} AND version={} AND "
              "fence={} AND owner={}",
              table_, set, hex(name), decided_on.version, decided_on.fence, hex(decided_on.owner)));
  return r.affected == 1;
}

Result<RowBackend::Try> VersionBackend::try_over(Connection& c, const std::string& name,
                                                 const Request& r, Deadline until) {
  for (int conflicts = 0; conflicts < most_conflicts; ++conflicts) {
    const Deadline sent = Clock::now();
    TRY(row, read(c, name, until));
    TRY_VOID(writable(c.where(), row.read_only));
    if (!row.exists) {
      TRY_VOID(c.query("make the lock", until,
                       "INSERT IGNORE INTO {}(name,version,fence,owner,conn,granted,until,who) "
                       "VALUES({},{},0,'',0,0,0,'')",
                       table_, hex(name), server_clock));
      continue;
    }
    const bool mine = row.owner == r.owner.hex() && row.until > row.now;
    if (!mine && !row.owner.empty() && after(row.until, skew_) > row.now) {
      TRY(found, read_record(c, name, until));
      return Try{.found = std::move(found)};
    }
    const FencingToken token =
        mine ? row.fence
             : std::max<FencingToken>(row.fence + 1, static_cast<FencingToken>(row.now));
    TRY(written, write(c, name, row,
                       fmt::format("fence={},owner='{}',granted={},until={},who={}", token,
                                   r.owner.hex(), row.now, row.now + r.ttl.count(),
                                   hex(r.identity.encode().substr(0, 4096))),
                       until));
    if (written) return Try{.token = token, .sent = sent};
  }
  return fail(Errc::unavailable, "others change this lock all the time");
}

Result<std::optional<FencingToken>> VersionBackend::renew_over(Connection& c,
                                                               const std::string& name,
                                                               const Owner& owner, Duration ttl,
                                                               Deadline until) {
  for (int conflicts = 0; conflicts < most_conflicts; ++conflicts) {
    TRY(row, read(c, name, until));
    if (row.owner != owner.hex() || row.until <= row.now) return std::nullopt;
    TRY(written, write(c, name, row, fmt::format("until={}", row.now + ttl.count()), until));
    if (written) return row.fence;
  }
  return fail(Errc::unavailable, "others change this lock all the time");
}

Result<bool> VersionBackend::release_over(Connection& c, const std::string& name,
                                          const Owner& owner, Deadline until) {
  for (int conflicts = 0; conflicts < most_conflicts; ++conflicts) {
    TRY(row, read(c, name, until));
    if (row.owner != owner.hex() || row.until <= row.now) return false;
    TRY(written, write(c, name, row, "owner='',until=0", until));
    if (written) return true;
  }
  return fail(Errc::unavailable, "others change this lock all the time");
}

Result<bool> VersionBackend::force_over(Connection& c, const std::string& name,
                                        const LockRow& found, Deadline until) {
  TRY(r, c.query("force a release", until,
                 "UPDATE {} SET version=version+1,owner='',until=0 WHERE name={} AND "
                 "fence={} AND owner={}",
                 table_, hex(name), found.fence, hex(found.owner)));
  return r.affected == 1;
}

}  // namespace dlock::mysql
