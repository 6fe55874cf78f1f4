// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "common/examination.hpp"
#include "core/text.hpp"
#include "postgresql/client/client.hpp"

namespace dlock::postgresql {
namespace {

using Level = Finding::Level;

constexpr int least_connections = 100;
constexpr double worst_clock = 1.0;      // seconds
constexpr double longest_snapshot = 60;  // seconds

// What a session may see of the server and of dlock's tables; the settings as other clients get
// them.
constexpr std::string_view facts_sql =
    "SELECT current_setting('max_connections'),current_setting('fsync'),"
    "current_setting('full_page_writes'),current_setting('synchronous_commit'),"
    "current_setting('synchronous_standby_names'),(SELECT count(*) FROM pg_stat_replication),"
    "(SELECT bool_and(to_regclass(t) IS NOT NULL) FROM (VALUES {}) n(t,r)),"
    "current_schema(),"
    "(SELECT max(extract(epoch FROM now()-xact_start))::bigint FROM pg_stat_activity WHERE "
    "backend_xmin IS NOT NULL AND pid<>pg_backend_pid() AND datname=current_database()),"
    "(date_part('epoch',clock_timestamp())*1e6)::bigint,"
    "(SELECT string_agg(relnamespace::regnamespace::text,', ') FROM pg_class WHERE relkind='r' AND "
    "relname IN ('dlock_lock','dlock_advisory') AND relnamespace<>coalesce((SELECT relnamespace "
    "FROM pg_class WHERE oid=(SELECT to_regclass(t) FROM (VALUES {}) n(t,r) LIMIT "
    "1)),0)),pg_has_role('pg_read_all_stats','USAGE')";
constexpr std::string_view rights_sql =
    "SELECT string_agg(r||' on '||t,', ') FROM (VALUES {}) n(t,r) WHERE NOT "
    "has_table_privilege(t,r)";

// The tables of a recipe and the rights that it needs there, as rows of SQL.
std::string_view needs(const Traits& traits) noexcept {
  return traits.native ? "('dlock_lock','SELECT'),('dlock_lock','INSERT'),('dlock_lock','UPDATE'),"
                         "('dlock_wait','SELECT'),('dlock_wait','INSERT'),('dlock_wait','UPDATE'),"
                         "('dlock_wait','DELETE')"
                       : "('dlock_advisory','SELECT'),('dlock_advisory','INSERT'),"
                         "('dlock_advisory','UPDATE')";
}

// The server's clock less this host's, by an answer that was asked for between two readings.
void clock(Findings& found, Micros server, std::int64_t before, std::int64_t after) {
  const auto middle = before + (after - before) / 2;
  const double apart = static_cast<double>(server - middle) / 1e6;
  const double error = static_cast<double>(after - before) / 2e6;
  const bool near = apart < worst_clock + error && apart > -worst_clock - error;
  found.add("clock", fmt::format("{:+.3f}s from this host's", apart), good_if(near, Level::warning),
            "leases are judged by the server's clock alone, but one that jumps ends them early or "
            "late: run NTP on both");
}

}  // namespace

Result<std::vector<Finding>> Client::examine(const Traits& traits) {
  const Deadline until = usual_deadline();
  TRY(c, connection(until, true));
  Findings found;
  const std::int64_t before = wall_micros();
  const SqlStatement facts{"", fmt::format(facts_sql, needs(traits), needs(traits))};
  auto r = c->query("examine", {facts}, until);
  const std::int64_t after = wall_micros();
  if (!r) {
    drop(std::move(c));
    return fail(std::move(r.error()));
  }
  const auto on = [&](std::size_t column) { return r->text(column) == "on"; };
  found.add("server", printable(fmt::format("PostgreSQL {}", c->facts().version)), Level::good);
  found.add("read_only", c->facts().read_only ? "on: nothing is granted here" : "off",
            good_if(!c->facts().read_only, Level::bad),
            "use the server that writes: locks are rows, and a standby lags");
  const bool made = r->text(6) == "t";
  Result<SqlRows> tried;
  if (!made && !c->facts().read_only) tried = make_tables(*c, true, until);
  found.add(
      "tables",
      made    ? "there"
      : tried ? printable(fmt::format("missing: made at the first use in schema {}", r->text(7)))
      : tried.error().code == Errc::denied ? "missing, and this account may not make them"
                                           : "missing, and " + printable(tried.error().message),
      good_if(made || tried, Level::bad),
      "another account must run the statements of dlock-postgresql(7)");
  const std::string_view others = r->text(10);
  if (!others.empty())
    found.add("other tables", printable(fmt::format("in schema {}", others)),
              made ? Level::warning : Level::bad,
              "accounts whose search_path leads to different tables do not exclude each other");
  if (made) {
    const SqlStatement rights{"", fmt::format(rights_sql, needs(traits))};
    const auto missing = c->query("examine", {rights}, until);
    if (missing)
      found.add("rights",
                missing->text(0).empty() ? "enough" : fmt::format("missing: {}", missing->text(0)),
                good_if(missing->text(0).empty(), Level::bad),
                "grant what dlock-postgresql(7) lists");
  }
  found.add("max_connections", printable(r->text(0)),
            good_if(r->number<int>(0).value_or(0) >= least_connections, Level::warning),
            "each holder and each waiter needs a connection");
  found.add("fsync", printable(r->text(1)), good_if(on(1), Level::warning),
            "a crash of the machine can forget grants, or all of the database");
  found.add("full_page_writes", printable(r->text(2)), good_if(on(2), Level::warning),
            "a crash of the machine can damage the tables");
  found.add("synchronous_commit", printable(r->text(3)),
            good_if(r->text(3) != "off", Level::warning),
            "a crash can forget the last second's grants");
  const bool standbys = r->number<int>(5).value_or(0) > 0, synchronous = !r->text(4).empty();
  found.add("replication",
            !standbys && !synchronous ? "none seen"
            : synchronous             ? "synchronous"
                                      : "asynchronous",
            good_if(!standbys || synchronous, Level::warning),
            "a standby that is promoted may not have seen a grant, which then is granted again: "
            "synchronous_standby_names");
  const bool proxied = c->facts().proxied;
  found.add("pooler",
            !proxied        ? "none: waiters sleep"
            : traits.native ? "between, or wake=poll: waiters poll"
                            : "between: refused",
            good_if(!proxied || options_.poll, traits.native ? Level::warning : Level::bad),
            traits.native ? "name the server itself, or say ?wake=poll if this is meant"
                          : "name the server itself, or use recipe lease");
  const auto oldest = r->number<std::int64_t>(8).value_or(0);
  const bool all_visible = r->text(11) == "t";
  found.add("oldest snapshot", all_visible ? fmt::format("{}s", oldest) : "?",
            !all_visible ? Level::unknown
                         : good_if(static_cast<double>(oldest) < longest_snapshot, Level::warning),
            "a long transaction in this database keeps the dead versions of rows that change "
            "often: locks become slower until it ends; GRANT pg_read_all_stats shows it");
  clock(found, r->number<Micros>(9).value_or(0), before, after);
  drop(std::move(c));
  return found.extract();
}

}  // namespace dlock::postgresql
