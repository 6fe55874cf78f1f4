// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in the tables of a database: it reads a row, lets LockState decide, and writes the
// row if nobody has changed it. The lease_table.hpp of each store has the statements, and says what
// wakes a waiter and why no wake-up is lost.
//
// dlock_lock has a row per key: holders, newest token, version. Every change of a row is one UPDATE
// that names the version on which the change was decided. Exclusion depends on that alone. A
// version is a random number. After a server has lost its last writes (a promoted standby, a
// restored backup), a counter would give the same version to another grant. dlock_wait has a row
// per waiter. Rows only join at the tail, so the number of waiters ahead of a waiter can only fall.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "sql/sql_client.hpp"
#include "sql/sql_lease_row.hpp"

namespace dlock {

// The statements that differ between the stores only in their text. $1 is the name of the key,
// except in `keys`. Each comment lists the other values and, after a colon, the columns of the
// result. If count_ahead is empty, no waiter passes a waiter that is stopped.
struct SqlLeaseStatements {
  SqlStatement make_row;     // $2 state, $3 version
  SqlStatement revoke;       // $2 version, $3 token
  SqlStatement start;        // $2 version, $3 at, $4 until (both 0: none), $5 new version
  SqlStatement stay;         // stays in the queue; $2 owner, $3 patience
  SqlStatement leave;        // leaves the queue; $2 owner, $3 the result of end_wait()
  SqlStatement ahead;        // $2 owner: number
  SqlStatement all_ahead;    // $2 ticket, $3 owner: ticket, mode, owner, permits
  SqlStatement count_ahead;  // $2 ticket: number, newest `since`, last ticket
  SqlStatement waiters;      // no other value: ticket, mode, owner, permits, who
  SqlStatement keys;         // $1 prefix: name
};

class SqlLeaseTable {
 public:
  struct Setup {
    std::string_view clock;  // an SQL expression; the model test has its own
    bool wakes = true;       // sessions have locks, which wake waiters and show who is alive
    Micros skew = 0;         // for this long after their end, the leases of others still count
    // If `wakes` is false: a waiter that is silent for this long counts as gone.
    Micros patience = 6'000'000;
    Micros claim = 3'000'000;  // how long each waiter ahead may take to claim a free key
  };
  explicit SqlLeaseTable(Setup setup) : setup_(setup) {}
  virtual ~SqlLeaseTable() = default;
  SqlLeaseTable(const SqlLeaseTable&) = delete;
  SqlLeaseTable& operator=(const SqlLeaseTable&) = delete;
  const Setup& setup() const noexcept { return setup_; }

  using Row = SqlLeaseRow;
  using Attempt = SqlLeaseAttempt;
  using Decision = SqlLeaseDecision;

  // Grants, queues or refuses. It may be repeated.
  Result<Decision> acquire(SqlSession&, Attempt&, Deadline until);
  // `ended`: how the job under the lease ended (RunEnd::text), for the record of the last run;
  // empty: the job has not ended. `noted`: Lease::ended, which the renewal stores.
  Result<SqlLeaseRenewal> renew(SqlSession&, const std::string& name, const Owner&, Micros ttl,
                                Deadline until, std::string_view ended = {},
                                std::string_view noted = {});
  // Returns whether the owner held the key. `written`: the row as we wrote it, which need not be
  // read again; null: reads the row first. `written->wake` is empty afterwards if that wake lock
  // was released, or is not needed.
  Result<bool> release(SqlSession&, const std::string& name, const Owner&, SqlWrittenRow* written,
                       Deadline until, std::string_view ended = {});
  Result<std::size_t> force_release(SqlSession&, const std::string& name, FencingToken,
                                    Deadline until);
  // Asks the holders in force to stop; false: there are none. `newest`: the newest token of the
  // holders that were asked, 0 before the first call. A repeated call with this token asks no later
  // holder.
  Result<bool> revoke(SqlSession&, const std::string& name, FencingToken& newest, Deadline until);
  Result<UpdateResult> note_start(SqlSession&, const std::string& name, const Owner&,
                                  const RunStartUpdate&, Deadline until);
  // Leaves the queue and releases a grant. True: the owner held the key. `waiting`: the result of
  // SqlClient::end_wait().
  Result<bool> cancel(SqlSession&, const std::string& name, const Owner&, int waiting,
                      Deadline until);
  // Shows that the waiter lives. Needed only if Setup::wakes is false.
  Result<void> refresh_entry(SqlSession&, const std::string& name, const Owner&, Deadline until);
  Result<std::size_t> ahead(SqlSession&, const std::string& name, const Owner&, Deadline until);
  // Returns the waiters for people to read, so it leaves out a damaged row.
  Result<std::vector<LockState::Waiter>> waiters(SqlSession&, const std::string& name,
                                                 Deadline until);
  Result<std::vector<std::string>> keys(SqlSession&, const std::string& prefix, Deadline until);

  // ---- the store: sessions and wake-ups ----
  // Chooses how waiters wake up in this session. It never decides which owner may hold the lock.
  virtual void adapt(const SqlSession&, const SqlOptions&) noexcept = 0;
  // Returns whether the locks of a session are named after the owner alone, and not after the key.
  virtual bool locks_by_owner() const noexcept { return false; }
  // Sends a wait for `lock` and a reading of the key after that wait. waited() takes both replies.
  virtual Result<void> listen(SqlSession&, Attempt&, const std::string& lock, Duration wait) = 0;
  virtual Result<SqlQueueRow> waited(SqlSession&, Attempt&, SqlAnswers, Deadline sent,
                                     Deadline until) = 0;
  // Call it after a wait that failed. True: the chain of waiters was too deep for the server's
  // deadlock search, and the next wait is for a waiter further ahead.
  virtual bool may_wait_further(const SqlSession&, Attempt&) { return false; }
  // Call it after an error. Returns whether the request may have been carried out.
  virtual bool is_unclear(const SqlSession& s) const noexcept { return s.broken(); }
  // Makes the server close the session when the session is silent for longer than this.
  virtual Result<void> keep_session(SqlSession&, Duration, Deadline) { return {}; }
  // Releases the locks that the session has for this owner and key. `wake`: SqlWrittenRow::wake.
  // `woken`: the release of the row has already woken the waiter. If the session still has its wake
  // lock then, no waiter was waiting for it.
  virtual Result<void> release_locks(SqlSession&, const std::string& name, const Owner&,
                                     const std::string& wake, bool woken, Deadline until) = 0;
  // Makes the grant belong to this session from now on: takes the locks of the grant, and clears
  // SqlWrittenRow::wake.
  virtual void claim_locks(SqlSession&, const std::string& name, const LockState::Holder&,
                           SqlWrittenRow&, Deadline until) = 0;
  virtual Result<Row> read_row(SqlSession&, const std::string& name, Deadline until) = 0;
  virtual Result<void> erase(SqlSession&, const std::string& name, Deadline until) = 0;

 protected:
  struct Change {
    std::uint64_t version;  // the version on which the change was decided
    const SqlWrittenRow& next;
    std::optional<EndedRun> run{};
    const Owner* ended = nullptr;  // the owner whose grant the change ends
    Micros before = never;         // the change must come before this time, on the server's clock
  };

  // ---- the store: statements that change a row ----
  virtual const SqlLeaseStatements& statements() const noexcept = 0;
  // Returns whether one statement can take a free key here.
  virtual bool takes_free(const SqlSession&) const { return true; }
  virtual Result<std::optional<Decision>> take_free(SqlSession&, const Attempt&, Deadline) = 0;
  // `join`: puts the owner into the queue before the read, in the same exchange.
  virtual Result<Row> read(SqlSession&, Attempt&, bool join, Deadline until) = 0;
  // Writes the grant. It also deletes rows of the queue: the owner's row, and the rows up to ticket
  // `passed`.
  virtual Result<bool> grant(SqlSession&, const Attempt&, const Row&, SqlWrittenRow& next,
                             std::uint64_t passed, Deadline until) = 0;
  virtual Result<bool> write(SqlSession&, const std::string& name, const Change&,
                             Deadline until) = 0;
  // Writes the release of a row that we wrote, and wakes the next waiter.
  virtual Result<bool> write_release(SqlSession& s, const std::string& name, const Change& change,
                                     std::string& /*wake*/, Deadline until) {
    return write(s, name, change, until);
  }
  // Returns the lock whose end shows that a waiter or a holder is gone.
  virtual std::string lock_of(const LockState::Waiter&) const = 0;
  virtual std::string lock_of(const LockState::Holder&, const Row&) const = 0;

  // Adds to the Row what only a contender needs, from columns 10 and 12 of the reply: the ticket of
  // its own row in the queue, and the living waiter ahead for which it would wait. A contender that
  // is not exclusive needs all waiters ahead, because it may run together with them. The waiters
  // are read after the holders. If a waiter ahead is granted in between, the version has changed,
  // so the contender's UPDATE writes nothing. A row of the queue does not count if its owner
  // already holds the key.
  Result<void> add_waiters(SqlSession&, const Attempt&, const SqlRows&, Row&, Deadline until);

  Setup setup_;

 private:
  void prolong(Row&, const Owner& me) const;
  SqlWakeTarget target(const Row&, const LockState::Acquisition&) const;
  Result<std::uint64_t> pass_the_stopped(SqlSession&, Attempt&, Row&, Deadline until);
};

}  // namespace dlock
