// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in PostgreSQL: the statements behind sql/sql_lease_table.hpp. The statement that
// writes a grant deletes the row of its owner, too.
//
// A ticket is an advisory lock of the session of its contender: taken by the INSERT before the row
// can be seen, released behind the UPDATE that ends it, in the same exchange; or the session is
// over, which proves the contender dead. A ticket wakes waiters and shows who lives; a free ticket
// never means a free lock. A waiter waits for the ticket of the contender ahead of it, and reads
// the key behind that wait in the same exchange. The lock's number is the row's number combined
// with the table's: advisory locks belong to the database, and the table of another schema counts
// from the same number. Outside of the statements a ticket is the lock's number.
//   * An exclusive waiter keeps its ticket as holder. Behind another waiter the next one may run
//     beside it, so its grant releases the ticket and is known by the session's wake lock instead.
//   * A holder that took a free key, without waiting, has a wake lock, too: an advisory lock that
//     its session took before its first such grant. A release ends it if there is a waiter, and
//     then the session's next grant has another wake lock.
//
// No wake-up is lost. V joins (J: commit of its row), reads (R), waits for the ticket of H (W). H
// releases (A: commit), then looks for waiters and ends the ticket (B), in one exchange but two
// transactions.
//  1. J B: B sees V's row, and ends the ticket: W ends, whether it began before B or after it.
//  2. B J: A came before B, and R comes after J: V reads a free key.
//  3. H's session dies between A and B, or at any other time: the ticket is free, V reads at once;
//     if the lease lives on V reads again and again, less and less often, until it ends.
//  4. H's lease ends, or is removed by force: V waits no longer than to its end, and 5 s at most; H
//     ends its wake lock when it learns that it has lost.
#pragma once
#include <optional>
#include <span>
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

  // `lock`: the session takes the ticket of the owner's row, if it does not have it.
  Call load(const std::string& name, const Owner* me, const Connection&, bool lock) const;
  Result<Row> finish_reading(Connection&, const Attempt&, const SqlRows&, Deadline sent,
                             Deadline until);
  Call change(const std::string& name, const Change&) const;
  void add_wake_lock(Connection&, std::vector<Call>&) const;

  const std::string alive_;  // an SQL condition on `w`
  const SqlStatement load_, take_, write_, leave_, join_;
  const SqlLeaseStatements statements_;
};

// An SQL expression that turns the number of a row of dlock_wait into the number of its lock, and
// back. The upper bits stay, and no wake lock has them.
std::string turned(std::string_view row, std::string_view number);

}  // namespace dlock::postgresql
