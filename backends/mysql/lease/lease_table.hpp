// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in a database of MySQL's family: the statements behind sql/sql_lease_table.hpp.
//
// Named locks show which contenders are alive. The session of a contender has `dl:<owner>` from
// before the enqueue until the release. If the contender wants a shared lock or a permit, its
// session also has `dq:<owner>` until the grant, so that the next waiter moves up at the grant.
// Named locks also wake waiters. A free named lock never means a free key.
//
// Taking a free key without waiters costs one UPDATE, and so does releasing the key. Neither takes
// or releases a named lock:
//   take        SET state=<mine>, wake=N WHERE state=<free> AND waiters=0
//   release     SET state=<free>         WHERE version=<mine> AND waiters=0
// N is the session's wake lock, a named lock that the session takes before its first such grant. A
// waiter inserts its row into dlock_wait, then writes `waiters=1`, and then reads. After that the
// release above finds no row: the holder cannot release quietly. So it releases loudly, by the same
// UPDATE without `waiters=0`, and then by RELEASE_LOCK(N). The session never takes N again; its
// next such grant has another wake lock. If an owner waited or read before its grant, the UPDATE of
// the grant sets `waiters` back to 0, unless dlock_wait has other rows of the key. The UPDATE
// checks this while it has the row locked.
//
// Why no wake-up is lost: waiter V joins (J: INSERT into dlock_wait, M: waiters=1), reads (R), and
// waits for N (W). Holder H releases quietly (Q) or loudly (A: the UPDATE, then B: N is released).
// "M Q" means that M happens before Q.
//  1. M Q: Q finds waiters=1 and does nothing, so A follows. Whether V begins to wait for N before
//     B or after B, V gets N, because N is never taken again.
//  2. Q M R: V reads a free key, and takes it.
//  3. The grant of another owner may set waiters=0 in between (C).
//     J C: C sees V's row, so waiters stays 1.
//     C J M: M sets waiters to 1 again.
//     J and M while C has the row locked: M waits for C.
//     So waiters is 1 from M on, as long as V's row exists. If V reads and finds no row of its own,
//     V joins again.
//  4. Only a grant sets waiters=0, and between H's grant and its release there is no other grant.
//     So case 1 applies if V reads waiters=1 and H's grant in one reading.
//     If V reads its row, H's grant and waiters=0, somebody changed the row by hand, or the server
//     is a Galera node. Then V writes waiters=1 and reads again.
//  5. H's session dies. Then N is free, so V gets N at once, and polls until the lease ends. H
//     renews over another session, which takes `dl:<owner>` and writes wake=''.
//  6. H's lease ends, or is removed by force. Then V waits at most until the lease would have
//     ended. H releases N when H learns that it has lost the lock.
//  7. The reply to Q is lost. If Q was carried out, there were no waiters. If not, the session is
//     gone, as in 5.
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "mysql/client/client.hpp"
#include "sql/sql_lease_table.hpp"

namespace dlock::mysql {

class LeaseTable final : public SqlLeaseTable {
 public:
  explicit LeaseTable(Setup setup = {.clock = server_clock});

  void adapt(const SqlSession&, const SqlOptions&) noexcept override;
  bool locks_by_owner() const noexcept override { return true; }
  Result<void> listen(SqlSession&, Attempt&, const std::string& lock, Duration wait) override;
  Result<SqlQueueRow> waited(SqlSession&, Attempt&, SqlAnswers, Deadline sent,
                             Deadline until) override;
  bool may_wait_further(const SqlSession&, Attempt&) override;
  // True also after an interrupted request: it may have been carried out without the wake-up.
  bool is_unclear(const SqlSession&) const noexcept override;
  Result<void> keep_session(SqlSession&, Duration ttl, Deadline until) override;
  Result<void> release_locks(SqlSession&, const std::string& name, const Owner&,
                             const std::string& wake, bool woken, Deadline until) override;
  void claim_locks(SqlSession&, const std::string& name, const LockState::Holder&, SqlWrittenRow&,
                   Deadline until) override;
  Result<Row> read_row(SqlSession&, const std::string& name, Deadline until) override;
  Result<void> erase(SqlSession&, const std::string& name, Deadline until) override;

 private:
  const SqlLeaseStatements& statements() const noexcept override {
    return setup_.wakes ? waking_ : polling_;
  }
  bool takes_free(const SqlSession& s) const override {
    return !as_connection(s).facts().statement_log;
  }
  Result<std::optional<Decision>> take_free(SqlSession&, const Attempt&, Deadline until) override;
  Result<Row> read(SqlSession&, Attempt&, bool join, Deadline until) override;
  Result<bool> grant(SqlSession&, const Attempt&, const Row&, SqlWrittenRow& next,
                     std::uint64_t passed, Deadline until) override;
  Result<bool> write(SqlSession&, const std::string& name, const Change&, Deadline until) override;
  Result<bool> write_release(SqlSession&, const std::string& name, const Change&, std::string& wake,
                             Deadline until) override;
  std::string lock_of(const LockState::Waiter&) const override;
  std::string lock_of(const LockState::Holder&, const Row&) const override;

  struct Read {
    Row row;
    bool queue = false;   // there are rows of waiters, dead or alive
    bool marked = false;  // column `waiters` is not 0
  };
  Result<Read> read_once(Connection&, Attempt&, bool join, Deadline until);
  Result<Read> finish_reading(Connection&, Attempt&, const SqlRows&, Deadline sent, Deadline until);
  SqlLeaseStatements statements(bool wakes) const;
  std::string read_in_sql(const Connection&, const Attempt&) const;
  std::string join_in_sql(const Connection&, const Attempt&) const;
  std::string swap_in_sql(const std::string& name, const Change&, std::string_view also) const;
  std::vector<std::string> missing_names(const Connection&, const Attempt&) const;
  std::string alive(std::string_view row) const { return alive(row, setup_.wakes); }
  std::string alive(std::string_view row, bool wakes) const;  // an SQL condition
  Result<SqlRows> write_free(Connection&, const std::string& name, const Change&, bool quietly,
                             std::string_view behind, Deadline until);
  Result<void> leave_queue(Connection&, const std::string& name, const Owner&,
                           std::optional<std::uint64_t> ticket, Deadline until);

  const Template take_, free_, free_run_;
  const SqlLeaseStatements waking_, polling_;
};

std::string hold_name(const Owner&);
// Checks the replies to several statements: if results are missing, the outcome is unknown.
Result<SqlRows> all_of(Connection&, std::string_view what, unsigned statements, Result<SqlRows>);

}  // namespace dlock::mysql
