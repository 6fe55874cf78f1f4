// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in a database of MySQL's family: the statements behind sql/sql_lease_table.hpp.
//
// Named locks show which contenders live: `dl:<owner>` from before the enqueue until the release,
// and for shared waiters and permits also `dq:<owner>` until the grant, so that the next of them
// moves up. They wake; a free one never means a free lock.
//
// A free key without waiters costs one UPDATE to take and one to release, and no named lock:
//   take        SET state=<mine>, wake=N WHERE state=<free> AND waiters=0
//   release     SET state=<free>         WHERE version=<mine> AND waiters=0
// N is the session's bell, a named lock that it has since before its first such grant. A waiter
// writes `waiters=1` behind its row of dlock_wait and before it reads; then the holder's quiet
// release finds nothing, and it releases aloud: the same without `waiters=0`, then RELEASE_LOCK(N).
// N is never taken again, the session's next such grant has another bell. `waiters` goes back to 0
// in the UPDATE of a grant to an owner that waited or read, if no row of dlock_wait is left but its
// own; its subquery is evaluated when that UPDATE has the row locked.
//
// No wake-up is lost. V joins (J: INSERT into dlock_wait, M: waiters=1), reads (R), waits for N
// (W). H releases quietly (Q) or aloud (A, then B: its bell).
//  1. M Q: Q finds waiters=1 and does nothing; A; V waits for N at any time, before B or after it,
//  and gets it: N is never taken again.
//  2. Q M R: V reads a free key, and takes it.
//  3. Clearing (C), by another who is granted in between: J C: C sees V's row, waiters stays 1. C J
//  M: 1 again. C has the row locked, J, M: M waits for C.
//     So as long as V's row is there, waiters is 1 since M; and V knows whether its row is there
//     when it reads: without it, it joins again.
//  4. Between H's grant and its release nothing is cleared: only grants do, and H is alone. So 1.
//  holds if V reads waiters=1 and H's grant in one reading.
//     V reads its row, H's grant, and waiters=0 (changed by hand; Galera): it writes waiters=1 and
//     reads again.
//  5. H's session dies: N is free, V has it at once, and asks until the lease ends. H renews over
//  another session: that has `dl:<owner>`, and wake=''.
//  6. H's lease ends, or is removed by force: V waits no longer than to its end; H rings when it
//  learns that it has lost.
//  7. The answer to Q is lost: it was carried out, without waiters; or not, and the session is
//  gone, so 5.
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "mysql/client/client.hpp"
#include "sql/sql_lease_backend.hpp"
#include "sql/sql_lease_table.hpp"

namespace dlock::mysql {

class LeaseTable final : public SqlLeaseTable<Connection, Answer> {
 public:
  // A session has the names of an owner, whatever keys that has.
  static constexpr bool locks_by_owner = true;
  explicit LeaseTable(Setup setup = {.clock = server_clock});
  // What a session is and can decides how waiters wake, and never which owner may hold the lock.
  void adapt(const Connection&, const Options&) noexcept;

  // Waits for a named lock, and reads behind that: listen() sends both, waited() reads the answer.
  Result<void> listen(Connection&, Attempt&, const std::string& lock, Duration wait);
  Result<Waited> waited(Connection&, Attempt&, Answer, Deadline sent, Deadline until);
  // After a wait that failed: true if the chain of waiters was too deep for the server's deadlock
  // search. Then it waits further ahead.
  static bool may_wait_further(const Connection&, Attempt&);
  // After an error: whether the request may have been carried out. If interrupted, it may have been
  // only the wake-up.
  static bool unclear(const Connection&) noexcept;
  // A session that is silent for longer than this is closed by the server.
  static Result<void> keep_session(Connection&, Duration ttl, Deadline until);

  Result<Row> read_row(Connection&, const std::string& name, Deadline until) override;
  // Releases the session's bell if that is `bell`, and those of the owner's named locks that the
  // session has.
  Result<void> end_locks(Connection&, const std::string& name, const Owner&,
                         const std::string& bell, bool rung, Deadline until);
  // Another session is that of the grant from now on: it has its name, and `wake` is cleared.
  void adopt(Connection&, const std::string& name, const LockState::Holder&, Known&,
             Deadline until);
  // Leaves the queue and releases a grant. True: it was held.
  Result<bool> cancel(Connection&, const std::string& name, const Owner&, int, Deadline until);

  Result<std::size_t> ahead(Connection&, const std::string& name, const Owner&, Deadline until);
  Result<void> say_alive(Connection&, const std::string& name, const Owner&, Deadline until);
  Result<std::vector<std::string>> keys(Connection&, const std::string& prefix, Deadline until);
  Result<std::vector<LockState::Waiter>> waiters(Connection&, const std::string& name,
                                                 Deadline until);
  Result<void> erase(Connection&, const std::string& name, Deadline until);

 private:
  bool takes_free(const Connection& c) const override { return !c.facts().statement_log; }
  Result<std::optional<Answered>> take_free(Connection&, const Attempt&, Deadline until) override;
  Result<Row> read(Connection&, Attempt&, bool join, Deadline until) override;
  Result<void> make_row(Connection&, const Attempt&, Deadline until) override;
  Result<bool> grant(Connection&, const Attempt&, const Row&, Known& next, std::uint64_t passed,
                     Deadline until) override;
  Result<bool> swap(Connection&, const std::string& name, const Change&, Deadline until) override;
  Result<bool> give_back(Connection&, const std::string& name, const Change&, std::string& bell,
                         Deadline until) override;
  Result<bool> write_revoked(Connection&, const std::string& name, std::uint64_t version,
                             FencingToken, Deadline until) override;
  Result<bool> write_start(Connection&, const std::string& name, std::uint64_t version,
                           const std::optional<Start>&, Deadline until) override;
  Result<Answer> all_ahead(Connection&, const Attempt&, const Row&, Deadline until) override;
  Result<std::optional<Answer>> count_ahead(Connection&, const Attempt&, const Row&,
                                            Deadline until) override;
  std::string lock_of(const LockState::Waiter&) const override;
  std::string lock_of(const LockState::Holder&, const Row&) const override;

  struct Read {
    Row row;
    bool queue = false;   // there are rows of waiters, dead or alive
    bool marked = false;  // `waiters`
  };
  Result<Read> read_once(Connection&, Attempt&, bool join, Deadline until);
  Result<Read> completed(Connection&, Attempt&, const Answer&, Deadline sent, Deadline until);
  std::string read_in_sql(const Connection&, const Attempt&) const;
  std::string join_in_sql(const Connection&, const Attempt&) const;
  std::string swap_in_sql(const std::string& name, const Change&, std::string_view also) const;
  std::vector<std::string> missing_names(const Connection&, const Attempt&) const;
  std::string alive(std::string_view row) const;  // an SQL condition
  Result<Answer> give(Connection&, const std::string& name, const Change&, bool quietly,
                      std::string_view behind, Deadline until);
  Result<void> leave_queue(Connection&, const std::string& name, const Owner&,
                           std::optional<std::uint64_t> ticket, Deadline until);

  const Template take_, give_, give_run_;
};

std::string hold_name(const Owner&);
// Of a request of several statements: with fewer results than those the outcome is not known.
Result<Answer> all_of(Connection&, std::string_view what, unsigned statements, Result<Answer>);

using LeaseBackend = SqlLeaseBackend<Client, LeaseTable>;

}  // namespace dlock::mysql
