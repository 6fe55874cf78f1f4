// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in the database. LockState decides; this loads it and writes its decisions.
//
// dlock_lock has a row per key: holders, newest token, version. Every change of it is one UPDATE
// that names the version it was decided on; exclusion rests on that alone. dlock_wait has a row per
// waiter, inserted by its owner; rows only join at the tail, so the waiters seen ahead of another
// can only become fewer. A grant deletes the row of its owner in the statement that writes it.
//
// A ticket is an advisory lock of the session of its contender: taken by the INSERT before the row
// can be seen, released behind the UPDATE that ends it, in the same exchange; or the session is
// over, which proves the contender dead. It wakes and tells who lives; a free one never means a
// free lock. A waiter waits for the ticket of the contender ahead of it, and reads the key behind
// that wait in the same exchange.
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
#include <string>
#include <variant>
#include "common/holders.hpp"
#include "core/backend.hpp"
#include "postgresql/client/connection.hpp"

namespace dlock::postgresql {

class LeaseTable {
 public:
  struct Setup {
    std::string_view clock = server_clock;  // the model test sets its own
    bool wakes = true;                      // advisory locks of a session exist here
    // without them: a waiter that is silent for this long is gone
    Micros patience = 6'000'000;
    Micros claim = 3'000'000;  // a free key is left to each waiter ahead for this long
  };
  explicit LeaseTable(Setup setup);
  void set_wakes(bool wakes) noexcept { setup_.wakes = wakes; }
  const Setup& setup() const noexcept { return setup_; }

  // What was read of a key, for a contender.
  struct Seen {
    bool exists = false;
    std::uint64_t version = 0;
    Micros now = 0, updated = 0;
    Deadline sent{};                      // the reading was not carried out before this
    bool old = false;                     // but perhaps long after: no lease starts from it
    Holders holders;                      // as stored
    LockState state;                      // with the waiters that count for the asking owner
    std::optional<std::uint64_t> ticket;  // of its row
    std::optional<Start> start;           // noted, and still needed
    FencingToken revoked = 0;  // holders with this token or an older one were asked to stop
    std::optional<LastRun> last_run;
  };

  // The row as our grant or renewal left it.
  struct Known {
    std::uint64_t version = 0;
    FencingToken fence = 0;
    Holders holders;
  };

  struct Target {
    std::uint64_t ticket = 0;  // 0: there is none, so only time or polling is left
    Owner owner;
    bool holder = false;
    bool any_of_several = false;  // the end of others may help as well
  };
  struct Answered {
    LockState::Answer answer;
    bool held = false;  // by an earlier request of the same owner
    Deadline sent{};    // of the reading on which this was decided
    Micros now = 0;
    std::uint64_t version = 0;
    Known known;        // after a grant
    Target target;      // of Waiting
    bool idle = false;  // there is room: those ahead only have to claim it
    std::optional<LockState::Holder> in_the_way;
  };

  struct Asking {
    std::string name;  // in the store
    std::string key;   // the full one
    LockState::Ask ask;
    bool untried = true;         // one statement may take it, if the key is free without waiters
    std::optional<Seen> seen{};  // read already, behind a wait
    // Room for each of those ahead and for us, as it was seen: since when, and before which grant.
    struct Room {
      FencingToken fence;
      Micros since;
    };
    std::optional<Room> room{};
  };
  // Grants, queues or refuses. May be repeated.
  Result<Answered> acquire(Connection&, Asking&, Deadline until);
  // Waits for a ticket, and reads behind that: listen() sends both, heard() reads the answer.
  Result<void> listen(Connection&, const Asking&, std::uint64_t ticket, Duration wait);
  Result<Seen> heard(Connection&, const Asking&, const Answers&, Deadline sent, Deadline until);

  struct Renewed {
    std::optional<FencingToken> token;  // none: lost
    Deadline sent{};
    Known known;
    LockState::Holder mine;
    bool revoked = false;
  };
  // `ended`: how the job under the lease ended (RunEnd::text), for the record of the last run;
  // empty: there was none.
  Result<Renewed> renew(Connection&, const std::string& name, const Owner&, Micros ttl,
                        Deadline until, std::string_view ended = {});
  // True: it was held. `known`: saves the read.
  Result<bool> release(Connection&, const std::string& name, const Owner&, const Known*,
                       Deadline until, std::string_view ended = {});
  // Ends those of the advisory locks that the session has for this key.
  Result<void> ring(Connection&, const std::string& name, Deadline until);
  // Another session is that of the grant from now on.
  Result<void> adopt(Connection&, const LockState::Holder&, Deadline until);
  // Leaves the queue and releases a grant. True: it was held. `waiting`: a session that waits for
  // this owner in the server, by its number: it is ended.
  Result<bool> cancel(Connection&, const std::string& name, const Owner&, int waiting,
                      Deadline until);
  Result<std::size_t> force_release(Connection&, const std::string& name, FencingToken,
                                    Deadline until);
  // Asks the holders in force to stop; false: there are none. `newest`: the newest token of those
  // asked, 0 before the first call. A repeated call asks no other holder.
  Result<bool> revoke(Connection&, const std::string& name, FencingToken& newest, Deadline until);
  Result<Seen> look(Connection&, const std::string& name, Deadline until);
  Result<Noted> note_start(Connection&, const std::string& name, const Owner&, const StartChange&,
                           Deadline until);

  Result<std::size_t> ahead(Connection&, const std::string& name, const Owner&, Deadline until);
  Result<void> say_alive(Connection&, const std::string& name, const Owner&, Deadline until);
  Result<Rows> keys(Connection&, const std::string& prefix, Deadline until);
  Result<std::vector<LockState::Waiter>> waiters(Connection&, const std::string& name,
                                                 Deadline until);
  Result<void> erase(Connection&, const std::string& name, Deadline until);

  std::uint64_t conflicts() const noexcept { return conflicts_; }

 private:
  // What a change does besides writing holders.
  enum class Behind { nothing, end_of_hold, end_of_wait };  // for the locks of the session
  struct Also {
    Micros before = never;                  // on the server's clock: not later
    std::optional<std::uint64_t> leaves{};  // the row of this ticket goes, too,
    bool sweep = false;                     // and all those before it
    std::string run_head{}, run_tail{};     // the last run
    Behind behind = Behind::nothing;
  };
  // `lock`: the session takes the ticket of the owner's row, if it does not have it.
  Call load(const std::string& name, const Owner* me, const Connection&, bool lock) const;
  Result<Seen> parse(const Connection&, const Rows&, Deadline sent, const LockState::Ask*) const;
  Result<Seen> read(Connection&, const Asking&, Deadline until);
  Result<Seen> join(Connection&, const Asking&, Deadline until);
  Result<Seen> completed(Connection&, const Asking&, Seen, Deadline until);
  Result<bool> pass_the_frozen(Connection&, Asking&, Seen&, Deadline until);
  Result<std::optional<Answered>> take_free(Connection&, const Asking&, Deadline until);
  Result<bool> swap(Connection&, const std::string& name, const Owner*, const Known&, const Also&,
                    Deadline until);
  void add_ends(const Connection&, const std::string& name, const Owner&, Behind,
                std::vector<Call>&) const;
  static void note_ends(Connection&, std::span<const Rows>);
  void add_bell(Connection&, std::vector<Call>&) const;
  static Target target(const Seen&, const LockState::Ask&);
  Result<void> back_off(unsigned conflict, Deadline until);

  Setup setup_;
  const std::string alive_;  // an SQL condition on `w`
  const Statement load_, take_, swap_, leave_, make_row_, join_, listen_, all_ahead_, passed_,
      ahead_, waiters_, say_alive_, cancel_;
  std::uint64_t conflicts_ = 0;
};

}  // namespace dlock::postgresql
