// SPDX-License-Identifier: Apache-2.0
// Values of recipe `lease` of a database (sql_lease_table.hpp): what is requested, read and
// decided.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include "common/holders.hpp"
#include "core/clock.hpp"
#include "sql/sql_session.hpp"
#include "store/backend.hpp"
#include "store/last_run.hpp"

namespace dlock {

std::uint64_t unique_number();  // 60 random bits

// What a contender has read about a key.
struct SqlLeaseRow {
  bool exists = false;
  std::uint64_t version = 0;
  Micros now = 0, updated = 0;
  Deadline sent{};  // the server read the row at this time or later
  // The server may have read the row long after `sent`, so no lease starts from this reading.
  bool old = false;
  Holders holders;  // as stored
  // Here the leases of others are prolonged by `skew`, and the list of waiters has only those that
  // matter to the owner.
  LockState state;
  std::optional<std::uint64_t> ticket;  // the ticket of the owner's row in the queue
  std::optional<RunStart> start;        // the recorded start, if it is still needed
  FencingToken revoked = 0;  // holders with this token or an older token were asked to stop
  std::optional<LastRun> last_run;
  std::string wake{};      // the wake lock of a holder that was granted a free key
  bool read_only = false;  // the server became read-only

  HolderView view_of(const LockState::Holder&) const;  // with the time of its grant
};

// A row that was read after a wait, in the same exchange. `obtained`: the wait got its lock.
struct SqlQueueRow {
  bool obtained;
  SqlLeaseRow row;
};

// The row as our grant or renewal wrote it.
struct SqlWrittenRow {
  std::uint64_t version = 0;
  FencingToken fence = 0;
  Holders holders;
  std::string wake{};  // set if we took a free key: the wake lock whose release wakes a waiter
};

// What a waiter waits for. If `lock` is empty, there is no lock to wait for, and the waiter sleeps
// or polls.
struct SqlWakeTarget {
  std::string lock;
  bool holder = false;          // the lock belongs to a holder, not to a waiter
  bool any_of_several = false;  // we want a permit, and the end of any of several leases is enough
};
struct SqlLeaseDecision {
  LockState::Answer answer;
  bool held = false;  // an earlier request of the same owner was granted the key
  Deadline sent{};    // when we sent the request whose reply decided this
  Micros now = 0;
  std::uint64_t version = 0;
  SqlWrittenRow written;  // set after a grant
  SqlWakeTarget target;   // set if the answer is Waiting
  bool idle = false;      // no waiter ahead must wait for a holder: they only have to claim the key
  std::optional<HolderView> in_the_way;
};

struct SqlLeaseAttempt {
  std::string name;  // the key's name in the store
  std::string key;   // the full key
  LockState::Acquisition request;
  // True: the next try may take the key in one statement, if the key is free and has no waiters.
  bool untried = true;
  // True until this session has read the key. The first reading takes the owner's locks, and only
  // asks whether there is a queue, because probably there is none.
  bool first = true;
  std::optional<SqlLeaseRow> row{};  // a row that was read already, after a wait
  std::string give_up{};   // the lock that a wait may have obtained; the next reading releases it
  unsigned distance = 16;  // wait for the lock of a waiter that is at most this many places ahead
  // Since `since`, neither we nor any waiter ahead has had to wait for a holder. This counts as
  // long as `fence` is the newest token.
  struct Room {
    FencingToken fence;
    Micros since;
  };
  std::optional<Room> room{};
};

struct SqlLeaseRenewal {
  std::optional<FencingToken> token;  // nullopt: the lease is lost
  Deadline sent{};
  SqlWrittenRow written;
  LockState::Holder mine;
  bool revoked = false;
};

Error damaged_record(const std::string& where);
std::optional<LockState::Waiter> waiter_of(std::string_view ticket, std::string_view mode,
                                           std::string_view owner, std::string_view permits);
// Parses a row of version, fence, state, the clock, updated, started, started_until, layout,
// revoked, last_run.
Result<SqlLeaseRow> parse_row(const SqlRows&, const std::string& where, Deadline sent);

// Corrects `sent` of a row that was read after a wait, in the same exchange. `began`: the server's
// clock before the wait. A lease must not count from before the wait, because it would be over
// soon. It must not count from the arrival of the reply either, because the reply may be late. If
// the server does not say how long the wait was, or its clock was set meanwhile, the row is `old`.
void count_wait(SqlLeaseRow&, std::optional<Micros> began);

}  // namespace dlock
