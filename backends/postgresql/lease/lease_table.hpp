// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in PostgreSQL: the statements behind sql/sql_lease_table.hpp. A grant deletes
// the row of its owner in the statement that writes it.
//
// A ticket is an advisory lock of the session of its contender: taken by the INSERT before the row
// can be seen, released behind the UPDATE that ends it, in the same exchange; or the session is
// over, which proves the contender dead. It wakes and tells who lives; a free one never means a
// free lock. A waiter waits for the ticket of the contender ahead of it, and reads the key behind
// that wait in the same exchange. The lock's number is that of the row with the table's in it:
// advisory locks are those of the database, and the table of another schema counts from the same
// number. Outside of the statements a ticket is the lock's number.
//   * An exclusive waiter keeps its ticket as holder. Of other waiters the next one may run beside
//     them, so their grant releases the ticket and is known by the session's bell instead.
//   * A holder that took a free key, without waiting, has the bell, too: an advisory lock that its
//     session has since before its first such grant. A release rings it (ends it) if there is a
//     waiter, and then the session's next grant has another.
//
// No wake-up is lost. V joins (J: commit of its row), reads (R), waits for the ticket of H (W). H
// releases (A: commit), then looks for waiters and rings (B), in one exchange but two transactions.
//  1. J B: B sees V's row, and ends the ticket: W ends, whether it began before B or after it.
//  2. B J: A came before B, and R comes after J: V reads a free key.
//  3. H's session dies between A and B, or at any other time: the ticket is free, V reads at once;
//     if the lease lives on V reads again and again, less and less often, until it ends.
//  4. H's lease ends, or is removed by force: V waits no longer than to its end, and 5 s at most; H
//     rings when it learns that it has lost.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>
#include "postgresql/client/client.hpp"
#include "sql/sql_lease_backend.hpp"
#include "sql/sql_lease_table.hpp"

namespace dlock::postgresql {

class LeaseTable final : public SqlLeaseTable<Connection, Rows> {
 public:
  static constexpr bool locks_by_owner = false;  // a ticket is of one key
  explicit LeaseTable(Setup setup = {.clock = server_clock});
  // What a session is decides how waiters wake, and never which owner may hold the lock.
  void adapt(const Connection& c, const Options&) noexcept { set_wakes(!c.facts().proxied); }

  // Waits for a ticket, and reads behind that: listen() sends both, waited() reads the answer.
  Result<void> listen(Connection&, const Attempt&, const std::string& ticket, Duration wait);
  Result<Waited> waited(Connection&, const Attempt&, const Answers&, Deadline sent, Deadline until);
  static bool may_wait_further(const Connection&, const Attempt&) { return false; }
  // After an error: whether the request may have been carried out.
  static bool unclear(const Connection& c) noexcept { return c.broken(); }
  static Result<void> keep_session(Connection&, Duration, Deadline) { return {}; }

  Result<Row> read_row(Connection&, const std::string& name, Deadline until) override;
  // Ends those of the advisory locks that the session has for this key. `rung`: the release did
  // that; a bell that it left had nobody to hear it.
  Result<void> end_locks(Connection&, const std::string& name, const Owner&, const std::string&,
                         bool rung, Deadline until);
  // Another session is that of the grant from now on.
  void adopt(Connection&, const std::string&, const LockState::Holder&, const Known&,
             Deadline until);
  // Leaves the queue and releases a grant. True: it was held. `waiting`: a session that waits for
  // this owner in the server, by its number: its wait
  // is ended.
  Result<bool> cancel(Connection&, const std::string& name, const Owner&, int waiting,
                      Deadline until);

  Result<std::size_t> ahead(Connection&, const std::string& name, const Owner&, Deadline until);
  Result<void> say_alive(Connection&, const std::string& name, const Owner&, Deadline until);
  Result<std::vector<std::string>> keys(Connection&, const std::string& prefix, Deadline until);
  Result<std::vector<LockState::Waiter>> waiters(Connection&, const std::string& name,
                                                 Deadline until);
  Result<void> erase(Connection&, const std::string& name, Deadline until);

 private:
  Result<std::optional<Answered>> take_free(Connection&, const Attempt&, Deadline until) override;
  Result<Row> read(Connection&, Attempt&, bool join, Deadline until) override;
  Result<void> make_row(Connection&, const Attempt&, Deadline until) override;
  Result<bool> grant(Connection&, const Attempt&, const Row&, Known& next, std::uint64_t passed,
                     Deadline until) override;
  Result<bool> swap(Connection&, const std::string& name, const Change&, Deadline until) override;
  Result<bool> give_back(Connection& c, const std::string& name, const Change& change, std::string&,
                         Deadline until) override {
    return swap(c, name, change, until);
  }
  Result<bool> write_revoked(Connection&, const std::string& name, std::uint64_t version,
                             FencingToken, Deadline until) override;
  Result<bool> write_start(Connection&, const std::string& name, std::uint64_t version,
                           const std::optional<Start>&, Deadline until) override;
  Result<Rows> all_ahead(Connection&, const Attempt&, const Row&, Deadline until) override;
  Result<std::optional<Rows>> count_ahead(Connection&, const Attempt&, const Row&,
                                          Deadline until) override;
  std::string lock_of(const LockState::Waiter& w) const override {
    return std::to_string(w.ticket);
  }
  std::string lock_of(const LockState::Holder& h, const Row&) const override {
    return h.ticket == 0 ? "" : std::to_string(h.ticket);
  }

  // `lock`: the session takes the ticket of the owner's row, if it does not have it.
  Call load(const std::string& name, const Owner* me, const Connection&, bool lock) const;
  Result<Row> completed(Connection&, const Attempt&, const Rows&, Deadline sent, Deadline until);
  Call change(const std::string& name, const Change&) const;
  void add_bell(Connection&, std::vector<Call>&) const;

  const std::string alive_;  // an SQL condition on `w`
  const Statement load_, take_, swap_, leave_, make_row_, join_, all_ahead_, passed_, ahead_,
      waiters_, say_alive_, cancel_;
};

// An SQL expression: turns the number of a row of dlock_wait into that of its lock, and back. The
// upper bits stay, which no bell has.
std::string turned(std::string_view row, std::string_view number);

using LeaseBackend = SqlLeaseBackend<Client, LeaseTable>;

}  // namespace dlock::postgresql
