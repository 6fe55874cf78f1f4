// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` of a database (sql_lease_table.hpp): what is requested, read and decided. Values
// only.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "common/holders.hpp"
#include "core/clock.hpp"
#include "core/owner.hpp"
#include "sql/sql_session.hpp"
#include "store/backend.hpp"
#include "store/last_run.hpp"

namespace dlock {

std::uint64_t unique_number();  // 60 random bits

// What was read of a key, for a contender.
struct SqlLeaseRow {
  bool exists = false;
  std::uint64_t version = 0;
  Micros now = 0, updated = 0;
  Deadline sent{};  // the server did not read before this time
  // The server may have read long after `sent`, so no lease starts from this reading.
  bool old = false;
  Holders holders;  // as stored
  // with foreign leases prolonged by `skew`, and the waiters that count for the asking owner
  LockState state;
  std::optional<std::uint64_t> ticket;  // of its row in the queue
  std::optional<RunStart> start;        // recorded, and still needed
  FencingToken revoked = 0;  // holders with this token or an older token were asked to stop
  std::optional<LastRun> last_run;
  std::string wake{};      // the wake lock of a holder that was granted a free key
  bool read_only = false;  // the server became read-only
};

// A row that was read behind a wait. `obtained`: whether what was waited for came.
struct SqlQueueRow {
  bool obtained;
  SqlLeaseRow row;
};

// The row as our grant or renewal left it.
struct SqlWrittenRow {
  std::uint64_t version = 0;
  FencingToken fence = 0;
  Holders holders;
  std::string wake{};  // a free key was taken: a release with waiters releases this lock
};

// What a waiter waits for; `lock` empty: there is nothing, so only time or polling is left.
struct SqlWakeTarget {
  std::string lock;
  bool holder = false;
  bool any_of_several = false;  // the end of other leases may help as well
};
struct SqlLeaseDecision {
  LockState::Answer answer;
  bool held = false;  // by an earlier request of the same owner
  Deadline sent{};    // of the reading on which this was decided
  Micros now = 0;
  std::uint64_t version = 0;
  SqlWrittenRow written;  // after a grant
  SqlWakeTarget target;   // of Waiting
  bool idle = false;      // there is room: the waiters ahead only have to claim it
  std::optional<LockState::Holder> in_the_way;
};

struct SqlLeaseAttempt {
  std::string name;  // in the store
  std::string key;   // the full key
  LockState::Acquisition request;
  bool untried = true;  // one statement may take it, if the key is free without waiters
  // over this session: the queue is probably empty, and its owner's locks must be taken
  bool first = true;
  std::optional<SqlLeaseRow> row{};  // read already, behind a wait
  std::string give_up{};   // a lock that it may have from a wait: the next reading ends it
  unsigned distance = 16;  // how many places ahead to wait for
  // Room for all waiters ahead and for us, as it was seen: since when, and before which grant.
  struct Room {
    FencingToken fence;
    Micros since;
  };
  std::optional<Room> room{};
};

struct SqlLeaseRenewal {
  std::optional<FencingToken> token;  // none: lost
  Deadline sent{};
  SqlWrittenRow written;
  LockState::Holder mine;
  bool revoked = false;
};

Error damaged_record(const std::string& where);
std::optional<LockState::Waiter> waiter_of(std::string_view ticket, std::string_view mode,
                                           std::string_view owner, std::string_view permits);
// A row of version, fence, state, the clock, updated, started, started_until, layout, revoked,
// last_run.
Result<SqlLeaseRow> parse_row(const SqlRows&, const std::string& where, Deadline sent);

// Corrects `sent` of a row that was read behind a wait, in the same exchange; `began`: the server's
// clock before the wait. A lease must not count from before the wait, because it would be over
// soon, nor from the arrival of the answer, which may be late. If the server does not say how long
// the wait was, or its clock was set meanwhile, the row is `old`.
void count_wait(SqlLeaseRow&, std::optional<Micros> began);

}  // namespace dlock
