// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in PostgreSQL: the statements behind sql/sql_lease_table.hpp. The statement that
// writes a grant also deletes the owner's row in the queue.
//
// A ticket is an advisory lock of a contender's session. The INSERT of the contender's row takes
// the ticket before others can see the row. The UPDATE that ends the contender's place or grant is
// followed, in the same exchange, by a statement that releases the ticket. If the session ends, the
// ticket becomes free, too, and the contender counts as dead. A ticket wakes waiters and shows who
// lives; a free ticket never means a free lock. A waiter waits for the ticket of the contender
// ahead of it, and reads the key after that wait, in the same exchange. The number of the advisory
// lock is the row's number combined with the table's number: advisory locks belong to the database,
// and the table of another schema has the same row numbers. Outside of the statements, "ticket"
// means the number of the advisory lock.
//   * An exclusive waiter keeps its ticket when it becomes the holder. Beside a holder that is not
//     exclusive, the next waiter may be able to run. So the grant of such a holder releases its
//     ticket, and later waiters wait for the wake lock of the holder's session instead.
//   * A holder that took a free key, without waiting, has a wake lock, too. A wake lock is an
//     advisory lock that a session takes before its first such grant. A release of the key releases
//     the wake lock if there is a waiter, and then the session's next grant has another wake lock.
//
// No wake-up is lost. The waiter V joins the queue (J: commit of its row), reads the key (R), and
// waits for the ticket of the holder H (W). H releases the key (A: commit), and then looks for
// waiters and releases its ticket (B). A and B are one exchange but two transactions.
//  1. J B: B sees V's row, and releases the ticket. So W ends, whether W began before B or after B.
//  2. B J: A came before B, and R comes after J, so V reads a free key.
//  3. H's session dies between A and B, or at any other time: the ticket becomes free, and V reads
//     at once. If H's lease is not over, V reads again and again, less and less often, until the
//     lease ends.
//  4. H's lease ends, or is removed by force: V waits at most until the lease would have ended, and
//     5 s at most. H releases its wake lock when H learns that it has lost the lock.
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "postgresql/client/client.hpp"
#include "sql/sql_lease_table.hpp"

namespace dlock::postgresql {

class LeaseTable final : public SqlLeaseTable {
 public:
  explicit LeaseTable(Setup setup = {.clock = server_clock});

  void adapt(const SqlSession& s, const SqlOptions&) noexcept override {
    setup_.wakes = !as_connection(s).facts().proxied;
  }
  Result<void> listen(SqlSession&, Attempt&, const std::string& ticket, Duration wait) override;
  Result<SqlQueueRow> waited(SqlSession&, Attempt&, SqlAnswers, Deadline sent,
                             Deadline until) override;
  Result<void> release_locks(SqlSession&, const std::string& name, const Owner&, const std::string&,
                             bool woken, Deadline until) override;
  void claim_locks(SqlSession&, const std::string&, const LockState::Holder&, SqlWrittenRow&,
                   Deadline until) override;
  Result<Row> read_row(SqlSession&, const std::string& name, Deadline until) override;
  Result<void> erase(SqlSession&, const std::string& name, Deadline until) override;

 private:
  const SqlLeaseStatements& statements() const noexcept override { return statements_; }
  Result<std::optional<Decision>> take_free(SqlSession&, const Attempt&, Deadline until) override;
  Result<Row> read(SqlSession&, Attempt&, bool join, Deadline until) override;
  Result<bool> grant(SqlSession&, const Attempt&, const Row&, SqlWrittenRow& next,
                     std::uint64_t passed, Deadline until) override;
  Result<bool> write(SqlSession&, const std::string& name, const Change&, Deadline until) override;
  std::string lock_of(const LockState::Waiter& w) const override {
    return std::to_string(w.ticket);
  }
  std::string lock_of(const LockState::Holder& h, const Row&) const override {
    return h.ticket == 0 ? "" : std::to_string(h.ticket);
  }

  // If `lock` is set, the session takes the ticket of the owner's row, unless it has the ticket.
  Call load(const std::string& name, const Owner* me, const Connection&, bool lock) const;
  Result<Row> finish_reading(Connection&, const Attempt&, const SqlRows&, Deadline sent,
                             Deadline until);
  Call change(const std::string& name, const Change&) const;
  void add_wake_lock(Connection&, std::vector<Call>&) const;

  const std::string alive_;  // an SQL condition: the waiter of row `w` is alive
  const SqlStatement load_, take_, write_, leave_, join_;
  const SqlLeaseStatements statements_;
};

// Returns an SQL expression that turns `number`, the number of a row of dlock_wait, into the number
// of its advisory lock, and back. `row`: the name of any row of that table in the statement. The
// upper four bits stay the same; a wake lock has other upper bits.
std::string turned(std::string_view row, std::string_view number);

}  // namespace dlock::postgresql
