// SPDX-License-Identifier: Apache-2.0
#include "sql/sql_lease_row.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "core/text.hpp"

namespace dlock {

std::uint64_t unique_number() {
  std::uint64_t n = 0;
  const Owner random = Owner::random();
  for (std::size_t i = 0; i < 8; ++i) n = n << 8U | random.bytes[i];
  return n >> 4U;
}

Error damaged_record(const std::string& where) {
  return {Errc::protocol,
          fmt::format("table dlock_lock at {}: a record is damaged or of another version", where)};
}

HolderView SqlLeaseRow::view_of(const LockState::Holder& h) const {
  HolderView v = view(h, now);
  v.granted_at = time_of_grant(holders.granted_at(h), now);
  return v;
}

std::optional<LockState::Waiter> waiter_of(std::string_view ticket, std::string_view mode,
                                           std::string_view owner, std::string_view permits) {
  const auto number = parse_number<std::uint64_t>(ticket);
  const auto m = parse_mode(mode);
  const auto o = Owner::parse(owner);
  const auto limit = parse_number<unsigned>(permits);
  if (!number || !m || !o || !limit) return std::nullopt;
  LockState::Waiter w;
  w.ticket = *number;
  w.mode = *m;
  w.owner = *o;
  w.limit = *limit;
  return w;
}

Result<SqlLeaseRow> parse_row(const SqlRows& r, const std::string& where, Deadline sent) {
  SqlLeaseRow row;
  row.sent = sent;
  if (r.rows.empty()) return row;
  if (r.text(7) != "1")
    return fail(Errc::usage,
                "table dlock_lock at {}: a record has layout {}, and this dlock knows "
                "layout 1 (a newer dlock wrote it: install that one on this host, too)",
                where, printable(r.text(7)));
  const auto version = r.number<std::uint64_t>(0), fence = r.number<std::uint64_t>(1),
             revoked = r.number<std::uint64_t>(8);
  const auto now = r.number<Micros>(3), updated = r.number<Micros>(4);
  auto holders = decode(r.text(2));
  if (!version || !fence || !now || !updated || !holders || !revoked)
    return fail(damaged_record(where));
  row.exists = true;
  row.version = *version;
  row.state.fence = *fence;
  row.now = *now;
  row.updated = *updated;
  if (const auto at = r.number<Micros>(5), until = r.number<Micros>(6);
      at && until && *until > *now)
    row.start = {*at, *until};
  row.revoked = *revoked;
  row.last_run = LastRun::parse(r.text(9), ' ');
  row.state.holders = holders->list;
  row.holders = std::move(*holders);
  return row;
}

void count_wait(SqlLeaseRow& row, std::optional<Micros> began) {
  const Duration waited{began ? row.now - *began : -1};
  row.old = waited < Duration{} || later(row.sent, waited) > Clock::now();
  if (!row.old) row.sent = std::max(row.sent, later(row.sent, waited - drift(waited)));
}

}  // namespace dlock
