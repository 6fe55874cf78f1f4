// SPDX-License-Identifier: Apache-2.0
#include "mysql/foreign/insert_backend.hpp"
#include <fmt/format.h>
#include <mysqld_error.h>
#include "mysql_schema/schema.hpp"

namespace dlock::mysql {
namespace {

constexpr std::string_view end_of_lease = "CAST(SUBSTRING_INDEX(method_desc,' ',-1) AS SIGNED)";

}  // namespace

InsertBackend::InsertBackend(const Traits& traits, Options options)
    : RowBackend(traits, std::move(options), schema::insert, "dlock_insert"),
      rows_(client_.options().table.empty() ? "method_lock" : client_.options().table) {}

std::string InsertBackend::in_force(const std::string& name) const {
  return fmt::format(
      "EXISTS(SELECT 1 FROM `{}` WHERE method_name={} AND method_desc LIKE CONCAT('dlock "
      "',r.owner,' %') AND {}>{})",
      rows_, text_hex(name), end_of_lease, server_clock);
}
// An expired row of dlock does not count, because the next contender removes it.
std::string InsertBackend::held(const std::string& name) const {
  return fmt::format(
      "EXISTS(SELECT 1 FROM `{}` WHERE method_name={} AND (method_desc NOT LIKE 'dlock %' OR "
      "{}+{}>{}))",
      rows_, text_hex(name), end_of_lease, skew_, server_clock);
}

Result<RowBackend::Try> InsertBackend::try_over(Connection& c, const std::string& name,
                                                const Request& r, Deadline until) {
  for (;;) {
    const Deadline sent = Clock::now();
    auto made =
        c.query("acquire", until,
                "SET @writes={};"
                "INSERT INTO `{}`(method_name,method_desc,create_time,update_time) "
                "SELECT {},CONCAT('{}',{}+{}),UTC_TIMESTAMP(6),UTC_TIMESTAMP(6) "
                "FROM DUAL WHERE @writes",
                server_writes, rows_, text_hex(name), mark(r.owner), server_clock, r.ttl.count());
    TRY_VOID(writable(c.where(), made && made->affected == 0));
    if (!made) {
      if (c.error_number() != ER_DUP_ENTRY) return fail(std::move(made.error()));
      // An earlier request of ours, whose reply was lost, may have inserted the row. Then renew
      // that row.
      TRY(mine, renew_over(c, name, r.owner, r.ttl, until));
      if (!mine.has_value()) {
        std::string stale = fmt::format("(method_desc LIKE 'dlock %' AND {}+{}<={})", end_of_lease,
                                        skew_, server_clock);
        if (client_.options().stale_after)
          stale += fmt::format(
              " OR (method_desc NOT LIKE 'dlock %' AND update_time<UTC_TIMESTAMP(6)-INTERVAL {} "
              "MICROSECOND)",
              client_.options().stale_after->count());
        TRY(cleaned, c.query("clean", until, "DELETE FROM `{}` WHERE method_name={} AND ({})",
                             rows_, text_hex(name), stale));
        if (cleaned.affected > 0) continue;
        TRY(found, read_record(c, name, until));
        return Try{.found = std::move(found)};
      }
    }
    TRY(token, write_record(c, name, r, row_of(name, r.owner), "0", until));
    if (token) return Try{.token = token, .sent = sent};
    TRY(found, read_record(c, name, until));  // our ttl has already passed
    return Try{.found = std::move(found)};
  }
}

// Returns the FROM clause of a statement that writes this owner's record. The clause selects the
// row if the row is ours and not expired, and locks the row until the statement is committed. So a
// late statement finds no row. A contender that wants to remove the row waits until the record is
// written, and then writes a greater token.
std::string InsertBackend::row_of(const std::string& name, const Owner& owner) const {
  return fmt::format("`{}` WHERE method_name={} AND method_desc LIKE '{}%' AND {}>{} FOR UPDATE",
                     rows_, text_hex(name), mark(owner), end_of_lease, server_clock);
}

Result<std::optional<FencingToken>> InsertBackend::renew_over(Connection& c,
                                                              const std::string& name,
                                                              const Owner& owner, Duration ttl,
                                                              Deadline until) {
  TRY(r, c.query("renew", until,
                 "UPDATE `{}` SET method_desc=CONCAT('{}',{}+{}),update_time=UTC_TIMESTAMP(6) "
                 "WHERE method_name={} AND method_desc LIKE '{}%' AND {}>{}",
                 rows_, mark(owner), server_clock, ttl.count(), text_hex(name), mark(owner),
                 end_of_lease, server_clock));
  if (r.affected == 0) return std::nullopt;
  TRY(t, c.query("renew", until,
                 "UPDATE {0} SET until={1}+{2} WHERE name={3} AND owner='{4}'; "
                 "SELECT fence FROM {0} WHERE name={3} AND owner='{4}'",
                 table_, server_clock, ttl.count(), hex(name), owner.hex()));
  if (const auto token = t.number<std::uint64_t>(0)) return std::optional<FencingToken>{*token};
  // The row has no record: its writer was cut off before it wrote the record, or the record was
  // deleted.
  TRY(key, Key::parse(std::string_view{name}.substr(client_.options().prefix.size())));
  Request again{key, owner};
  again.ttl = ttl;
  return write_record(c, name, again, row_of(name, owner), "0", until);
}

Result<bool> InsertBackend::release_over(Connection& c, const std::string& name, const Owner& owner,
                                         Deadline until) {
  // Clear the record first, because after the release the next holder overwrites the record.
  TRY(r, c.query("release", until,
                 "UPDATE {} SET owner='' WHERE name={} AND owner='{}'; DELETE FROM `{}` WHERE "
                 "method_name={} AND method_desc LIKE '{}%' AND {}>{}; SELECT ROW_COUNT()",
                 table_, hex(name), owner.hex(), rows_, text_hex(name), mark(owner), end_of_lease,
                 server_clock));
  return r.number<std::int64_t>(0).value_or(0) > 0;
}

// Removes exactly the row that was read. A foreign row must be unchanged, because its program may
// replace it at any time.
Result<bool> InsertBackend::force_over(Connection& c, const std::string& name, const LockRow& found,
                                       Deadline until) {
  std::string which = fmt::format("method_desc LIKE 'dlock {} %'", found.owner);
  if (!found.ours) {
    TRY(row, c.query("force a release", until,
                     "SELECT HEX(method_desc),update_time FROM `{}` WHERE method_name={}", rows_,
                     text_hex(name)));
    if (row.rows.empty()) return false;
    which = fmt::format("HEX(method_desc)='{}' AND update_time<=>{}", row.text(0),
                        row.has(1) ? fmt::format("'{}'", row.text(1)) : "NULL");
  }
  TRY(r, c.query("force a release", until, "DELETE FROM `{}` WHERE method_name={} AND {}", rows_,
                 text_hex(name), which));
  // without the row the record is not in force, so a failure here does not matter
  (void)c.query("force a release", until, "UPDATE {} SET owner='' WHERE name={} AND owner={}",
                table_, hex(name), hex(found.owner));
  return r.affected > 0;
}

}  // namespace dlock::mysql
