// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` of a database (sql_lease_table.hpp): what is asked, read and answered.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "common/holders.hpp"
#include "core/clock.hpp"
#include "core/number.hpp"
#include "core/owner.hpp"
#include "core/text.hpp"
#include "store/backend.hpp"
#include "store/last_run.hpp"

namespace dlock {

// 60 random bits.
inline std::uint64_t unique_number() {
  std::uint64_t n = 0;
  const Owner random = Owner::random();
  for (std::size_t i = 0; i < 8; ++i) n = n << 8U | random.bytes[i];
  return n >> 4U;
}

// What was read of a key, for a contender.
struct SqlLeaseRow {
  bool exists = false;
  std::uint64_t version = 0;
  Micros now = 0, updated = 0;
  Deadline sent{};   // the reading was not carried out before this
  bool old = false;  // but perhaps long after: no lease starts from it
  Holders holders;   // as stored
  // with foreign leases prolonged by `skew`, and the waiters that count for the asking owner
  LockState state;
  std::optional<std::uint64_t> ticket;  // of its row
  std::optional<Start> start;           // noted, and still needed
  FencingToken revoked = 0;  // holders with this token or an older one were asked to stop
  std::optional<LastRun> last_run;
  std::string wake{};      // the bell of a holder that was granted a free key
  bool read_only = false;  // the server became read-only
};

// Read behind a wait. `obtained`: whether what was waited for came.
struct SqlLeaseWaited {
  bool obtained;
  SqlLeaseRow row;
};

// The row as our grant or renewal left it.
struct SqlLeaseKnown {
  std::uint64_t version = 0;
  FencingToken fence = 0;
  Holders holders;
  std::string wake{};  // of a free key that was taken: a release with waiters rings this bell
};

// What to wait for; `lock` empty: there is nothing, so only time or polling is left.
struct SqlLeaseTarget {
  std::string lock;
  bool holder = false;
  bool any_of_several = false;  // the end of others may help as well
};
struct SqlLeaseAnswered {
  LockState::Answer answer;
  bool held = false;  // by an earlier request of the same owner
  Deadline sent{};    // of the reading on which this was decided
  Micros now = 0;
  std::uint64_t version = 0;
  SqlLeaseKnown known;    // after a grant
  SqlLeaseTarget target;  // of Waiting
  bool idle = false;      // there is room: those ahead only have to claim it
  std::optional<LockState::Holder> in_the_way;
};

struct SqlLeaseAttempt {
  std::string name;  // in the store
  std::string key;   // the full one
  LockState::Acquisition request;
  bool untried = true;  // one statement may take it, if the key is free without waiters
  // over this session: the queue is probably empty, and its owner's locks must be taken
  bool first = true;
  std::optional<SqlLeaseRow> row{};  // read already, behind a wait
  std::string give_up{};   // a lock that it may have from a wait: the next reading ends it
  unsigned distance = 16;  // how many places ahead to wait for
  // Room for each of those ahead and for us, as it was seen: since when, and before which grant.
  struct Room {
    FencingToken fence;
    Micros since;
  };
  std::optional<Room> room{};
};

struct SqlLeaseRenewed {
  std::optional<FencingToken> token;  // none: lost
  Deadline sent{};
  SqlLeaseKnown known;
  LockState::Holder mine;
  bool revoked = false;
};

inline Error damaged_record(const std::string& where) {
  return {Errc::protocol,
          fmt::format("table dlock_lock at {}: a record is damaged or of another version", where)};
}

inline std::optional<LockState::Waiter> waiter_of(std::string_view ticket, std::string_view mode,
                                                  std::string_view owner,
                                                  std::string_view permits) {
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
// Rows of ticket, mode, owner, permits, who; for people, so a damaged one is left out.
template <class Rows>
std::vector<LockState::Waiter> waiters_in(const Rows& r) {
  std::vector<LockState::Waiter> out;
  for (std::size_t i = 0; i < r.rows.size(); ++i)
    if (auto w = waiter_of(r.text(0, i), r.text(1, i), r.text(2, i), r.text(3, i))) {
      w->meta = r.text(4, i);
      out.push_back(std::move(*w));
    }
  return out;
}
template <class Rows>
std::vector<std::string> names_in(const Rows& r, std::size_t prefix) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < r.rows.size(); ++i) names.emplace_back(r.text(0, i).substr(prefix));
  return names;
}

// A row of version, fence, state, the clock, updated, started, started_until, layout, revoked,
// last_run.
template <class Rows>
Result<SqlLeaseRow> parse_row(const Rows& r, const std::string& where, Deadline sent) {
  SqlLeaseRow row;
  row.sent = sent;
  if (r.rows.empty()) return row;
  if (r.text(7) != "1")
    return fail(Errc::usage,
                fmt::format("table dlock_lock at {}: a record has layout {}, and this dlock knows "
                            "layout 1 (a newer dlock wrote it: install that one on this host, too)",
                            where, printable(r.text(7))));
  const auto version = parse_number<std::uint64_t>(r.text(0)),
             fence = parse_number<std::uint64_t>(r.text(1)),
             revoked = parse_number<std::uint64_t>(r.text(8));
  const auto now = parse_number<Micros>(r.text(3)), updated = parse_number<Micros>(r.text(4));
  auto holders = decode(r.text(2));
  if (!version || !fence || !now || !updated || !holders || !revoked)
    return fail(damaged_record(where));
  row.exists = true;
  row.version = *version;
  row.state.fence = *fence;
  row.now = *now;
  row.updated = *updated;
  if (const auto at = parse_number<Micros>(r.text(5)), until = parse_number<Micros>(r.text(6));
      at && until && *until > *now)
    row.start = {*at, *until};
  row.revoked = *revoked;
  row.last_run = LastRun::parse(r.text(9), ' ');
  row.state.holders = holders->list;
  row.holders = std::move(*holders);
  return row;
}

// Of a reading behind a wait, in the same exchange. A lease must not count from before the wait,
// which would be over soon, nor from the arrival of the answer, which may be late: the server says
// how long the wait was. If it does not, or its clock was set meanwhile, no lease starts from it.
inline void count_wait(SqlLeaseRow& row, std::optional<Micros> began) {
  const Duration waited{began ? row.now - *began : -1};
  row.old = waited < Duration{} || later(row.sent, waited) > Clock::now();
  if (!row.old) row.sent = std::max(row.sent, later(row.sent, waited - drift(waited)));
}

}  // namespace dlock
