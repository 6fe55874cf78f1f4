// SPDX-License-Identifier: Apache-2.0
#include "postgresql/advisory/advisory_lock.hpp"
#include <fmt/format.h>
#include <limits>
#include "core/text.hpp"
#include "postgresql/client/client.hpp"

namespace dlock::postgresql {
namespace {

std::uint32_t crc32(std::string_view text) noexcept {
  std::uint32_t crc = ~0U;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
  }
  return ~crc;
}

std::string two(std::int64_t first, std::int64_t second) {
  const auto bits = static_cast<std::uint64_t>(first) << 32 | static_cast<std::uint32_t>(second);
  return std::to_string(static_cast<std::int64_t>(bits));
}

// Returns an SQL expression for the number of the lock.
std::string number_of(std::string_view kind, std::string_view value = "$1") {
  return kind == "hashtext"           ? fmt::format("hashtext({})::bigint", value)
         : kind == "hashtextextended" ? fmt::format("hashtextextended({},0)", value)
                                      : fmt::format("{}::bigint", value);
}
bool of_two(std::string_view kind) noexcept { return kind == "int4,int4" || kind == "crc32"; }
std::string arguments_of(std::string_view kind, std::string_view value = "$1") {
  return of_two(kind) ? fmt::format("({0}::bigint>>32)::int,({0}::bigint<<32>>32)::int", value)
                      : number_of(kind, value);
}

// Returns an SQL condition: the row `l` of pg_locks is this lock, of this database.
std::string is(std::string_view l, std::string_view number, int kind) {
  return fmt::format(
      "{0}.locktype='advisory' AND {0}.database=(SELECT oid FROM pg_database WHERE "
      "datname=current_database()) AND {0}.objsubid={2} AND "
      "({0}.classid::bigint<<32|{0}.objid::bigint)={1}",
      l, number, kind);
}

// Returns the number of a second lock that a holder's session has. This seal shows that the record
// of that owner is in force.
std::string seal(std::string_view owner) { return fmt::format("hashtextextended({},0)", owner); }

}  // namespace

Result<std::string> lock_value(std::string_view kind, std::string_view text) {
  const auto wrong = [&](std::string_view allowed) {
    return fail(Errc::usage, "key {}: with ?key={} it is {}", quoted(text), kind, allowed);
  };
  if (kind == "int8") {
    const auto number = parse_number<std::int64_t>(text);
    if (!number) return wrong("a whole number of 64 bits, as 42");
    return std::to_string(*number);
  }
  if (kind == "int4,int4") {
    const auto comma = std::min(text.find(','), text.size());
    const auto first = parse_number<std::int32_t>(text.substr(0, comma)),
               second = parse_number<std::int32_t>(text.substr(std::min(comma + 1, text.size())));
    if (!first || !second) return wrong("two whole numbers of 32 bits, as 42,7");
    return two(*first, *second);
  }
  if (kind == "crc32") return two(crc32(text) & std::numeric_limits<std::int32_t>::max(), 0);
  return std::string{text};
}

AdvisoryStatements::AdvisoryStatements(std::string_view kind)
    : kind_(kind),
      args_(arguments_of(kind)),
      rows_("FROM pg_locks l WHERE " + is("l", number_of(kind), of_two(kind) ? 2 : 1)),
      set_timeout{
          "dlock_silence",
          "SELECT set_config('idle_session_timeout',$1,false),"
          "set_config('tcp_keepalives_idle',$2,false),set_config('tcp_user_timeout','0',false)"},
      take{"dlock_take_advisory",
           fmt::format(
               "WITH got AS MATERIALIZED (SELECT CASE WHEN pg_try_advisory_lock({0}) THEN "
               "pg_try_advisory_lock_shared({1}) IS NOT NULL END AS ok) INSERT INTO dlock_advisory"
               "(name,fence,owner,granted,ttl,who) SELECT $2,{2},$3,{2},$4::bigint,$5 FROM got "
               "WHERE ok ON CONFLICT (name) DO UPDATE SET "
               "fence=GREATEST(dlock_advisory.fence+1,excluded.fence),owner=excluded.owner,"
               "granted=excluded.granted,ttl=excluded.ttl,who=excluded.who RETURNING fence",
               args_, seal("$3"), server_clock)},
      has_lock{
          "dlock_beat_advisory",
          fmt::format("SELECT EXISTS(SELECT {} AND l.granted AND l.pid=pg_backend_pid())", rows_)},
      free{"dlock_free_advisory",
           fmt::format("SELECT pg_advisory_unlock({}),pg_advisory_unlock_all()", args_)},
      read{"", fmt::format("SELECT {2},(SELECT string_agg(l.pid::text,',') {0} AND l.granted),"
                           "r.fence,r.owner,r.granted,r.who,o.pid IS NOT NULL,r.ttl-o.silent FROM "
                           "(SELECT 1) x LEFT JOIN dlock_advisory r ON r.name=$2 LEFT JOIN LATERAL "
                           "(SELECT l.pid,COALESCE((SELECT date_part('epoch',statement_timestamp()-"
                           "a.state_change)*1e6 FROM pg_stat_activity a WHERE a.pid=l.pid),0)::"
                           "bigint AS silent {0} AND l.granted AND EXISTS(SELECT FROM pg_locks s "
                           "WHERE s.pid=l.pid AND {1})) o ON true",
                           rows_, is("s", seal("r.owner"), 1), server_clock)},
      there{"", fmt::format("SELECT {1},(SELECT string_agg(l.pid::text,',') {0} AND l.granted)",
                            rows_, server_clock)},
      end{"", fmt::format("SELECT pg_terminate_backend(l.pid,$3::bigint) {} AND "
                          "l.pid=ANY(string_to_array($2,',')::int[])",
                          rows_)} {}

// A DO block takes no $1, so the text of the block contains the value. The value is in hex, because
// no quote and no setting can change the meaning of hex.
SqlStatement AdvisoryStatements::wait(const std::string& value, Duration longest) const {
  std::string hex;
  for (const char c : value) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return wait_statement(
      fmt::format("pg_advisory_lock({})",
                  arguments_of(kind_, fmt::format("convert_from(decode('{}','hex'),'UTF8')", hex))),
      longest);
}

}  // namespace dlock::postgresql
