// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include "common/examination.hpp"
#include "postgresql/client/client.hpp"

namespace dlock::postgresql {
namespace {

using Level = Finding::Level;

// The settings as other clients get them.
constexpr Check checks[] = {
    {"max_connections", "current_setting('max_connections')", at_least<100>,
     "each holder and each waiter needs a connection"},
    {"fsync", "current_setting('fsync')", is_on,
     "a crash of the machine can forget grants, or all of the database"},
    {"full_page_writes", "current_setting('full_page_writes')", is_on,
     "a crash of the machine can damage the tables"},
    {"synchronous_commit", "current_setting('synchronous_commit')",
     [](std::string_view value) { return good_if(value != "off", Level::warning); },
     "a crash can forget the last second's grants"},
    {"replication",
     "CASE WHEN current_setting('synchronous_standby_names')<>'' THEN 'synchronous' WHEN "
     "EXISTS(SELECT FROM pg_stat_replication) THEN 'asynchronous' ELSE 'none seen' END",
     [](std::string_view value) { return good_if(value != "asynchronous", Level::warning); },
     "a standby that is promoted may not have seen a grant, which then is granted again: "
     "synchronous_standby_names"},
    {"oldest snapshot",
     "CASE WHEN NOT pg_has_role('pg_read_all_stats','USAGE') THEN 'may not be asked' ELSE "
     "coalesce((SELECT "
     "max(extract(epoch FROM now()-xact_start))::bigint FROM pg_stat_activity WHERE backend_xmin "
     "IS NOT NULL AND pid<>pg_backend_pid() AND datname=current_database()),0)||'s' END",
     [](std::string_view value) {
       constexpr std::int64_t longest = 60;  // in seconds
       const auto age = parse_number<std::int64_t>(value.substr(0, value.size() - 1));
       return !age ? Level::unknown : good_if(*age < longest, Level::warning);
     },
     "a long transaction in this database keeps the dead versions of rows that change often: locks "
     "become slower until it ends; GRANT pg_read_all_stats shows it"},
};

// Reads four facts: the server's clock, whether the tables exist, the schema for new tables, and
// other schemas that have tables of dlock. {0}: the rows of needs().
constexpr std::string_view facts_sql =
    "SELECT (date_part('epoch',clock_timestamp())*1e6)::bigint,"
    "(SELECT bool_and(to_regclass(t) IS NOT NULL) FROM (VALUES {0}) n(t,r)),current_schema(),"
    "(SELECT string_agg(relnamespace::regnamespace::text,', ') FROM pg_class WHERE relkind='r' AND "
    "relname IN ('dlock_lock','dlock_advisory') AND relnamespace<>coalesce((SELECT relnamespace "
    "FROM pg_class WHERE oid=(SELECT to_regclass(t) FROM (VALUES {0}) n(t,r) LIMIT 1)),"
    "to_regnamespace(quote_ident(current_schema())),0))";
constexpr std::size_t own_facts = 4;
constexpr std::string_view rights_sql =
    "SELECT string_agg(r||' on '||t,', ') FROM (VALUES {}) n(t,r) WHERE NOT "
    "has_table_privilege(t,r)";

// Returns the tables of a recipe and the rights that it needs there, as rows of SQL.
std::string_view needs(const Traits& traits) noexcept {
  return traits.native ? "('dlock_lock','SELECT'),('dlock_lock','INSERT'),('dlock_lock','UPDATE'),"
                         "('dlock_wait','SELECT'),('dlock_wait','INSERT'),('dlock_wait','UPDATE'),"
                         "('dlock_wait','DELETE')"
                       : "('dlock_advisory','SELECT'),('dlock_advisory','INSERT'),"
                         "('dlock_advisory','UPDATE')";
}

// Compares the server's clock with this host's clock. `before` and `after`: this host's clock
// around the exchange in which the server read its clock.
void clock(Findings& found, Micros server, std::int64_t before, std::int64_t after) {
  const auto middle = before + (after - before) / 2;
  const double apart = static_cast<double>(server - middle) / 1e6;
  const double worst = 1.0 + static_cast<double>(after - before) / 2e6;
  found.add("clock", fmt::format("{:+.3f}s from this host's", apart),
            good_if(apart < worst && apart > -worst, Level::warning),
            "leases are judged by the server's clock alone, but one that jumps ends them early or "
            "late: run NTP on both");
}

}  // namespace

Result<std::vector<Finding>> Client::examine(const Traits& traits) {
  const Deadline until = usual_deadline();
  TRY(c, connection(until, true));
  Findings found;
  std::string sql = fmt::format(facts_sql, needs(traits));
  for (const Check& check : checks) sql += fmt::format(",{}", check.query);
  const SqlStatement facts{"", sql};
  const std::int64_t before = wall_micros();
  auto r = c->query("examine", {facts}, until);
  const std::int64_t after = wall_micros();
  if (!r) {
    drop(std::move(c));
    return fail(std::move(r.error()));
  }
  const bool read_only = c->facts().read_only, proxied = c->facts().proxied;
  found.add("server", printable(fmt::format("PostgreSQL {}", c->facts().version)), Level::good);
  found.add("read_only", read_only ? "on: nothing is granted here" : "off",
            good_if(!read_only, Level::bad),
            "use the server that writes: locks are rows, and a standby lags");
  const bool made = r->text(1) == "t";
  Result<SqlRows> tried;
  if (!made && !read_only) tried = make_tables(*c, true, until);
  found.add(
      "tables",
      made    ? "there"
      : tried ? printable(fmt::format("missing: made at the first use in schema {}", r->text(2)))
      : tried.error().code == Errc::denied ? "missing, and this account may not make them"
                                           : "missing, and " + printable(tried.error().message),
      good_if(made || tried, Level::bad),
      "another account must run the statements of dlock-postgresql(7)");
  if (r->has(3))
    found.add("other tables", printable(fmt::format("in schema {}", r->text(3))),
              made ? Level::warning : Level::bad,
              "accounts whose search_path leads to different tables do not exclude each other");
  if (made) {
    const SqlStatement rights{"", fmt::format(rights_sql, needs(traits))};
    if (const auto missing = c->query("examine", {rights}, until))
      found.add("rights", missing->has(0) ? fmt::format("missing: {}", missing->text(0)) : "enough",
                good_if(!missing->has(0), Level::bad), "grant what dlock-postgresql(7) lists");
  }
  for (std::size_t i = 0; i < std::size(checks); ++i) found.add(checks[i], r->text(own_facts + i));
  found.add("pooler",
            !proxied        ? "none: waiters sleep"
            : traits.native ? "between, or wake=poll: waiters poll"
                            : "between: refused",
            good_if(!proxied || options_.poll, traits.native ? Level::warning : Level::bad),
            traits.native ? "name the server itself, or say ?wake=poll if this is meant"
                          : "name the server itself, or use recipe lease");
  clock(found, r->number<Micros>(0).value_or(0), before, after);
  drop(std::move(c));
  return found.extract();
}

}  // namespace dlock::postgresql
