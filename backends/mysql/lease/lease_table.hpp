// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in the database. LockState decides; this loads it and writes its decisions.
//
// dlock_lock has a row per key: holders, newest token, version. Every change of it is one UPDATE
// that names the version it was decided on; exclusion rests on that alone. dlock_wait has a row per
// waiter, inserted and deleted by its owner; rows only join at the tail, so the waiters seen ahead
// of another can only become fewer.
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
#include <variant>
#include "core/backend.hpp"
#include "core/last_run.hpp"
#include "core/lock_state.hpp"
#include "mysql/client/connection.hpp"
#include "mysql/lease/lease_record.hpp"

namespace dlock::mysql {

class LeaseTable {
 public:
  struct Setup {
    std::string_view clock = server_clock;  // the model test sets its own
    bool named = true;                      // named locks exist here
    Micros skew = 0;                        // a foreign lease ends so much later
    // without named locks: a waiter that is silent for this long is gone
    Micros patience = 6'000'000;
    Micros claim = 3'000'000;  // a free key is left to each waiter ahead for this long
  };
  explicit LeaseTable(Setup setup);
  void set_named(bool named, Micros skew) noexcept {
    setup_.named = named;
    setup_.skew = skew;
  }
  const Setup& setup() const noexcept { return setup_; }

  // The data read of a key, for a contender.
  struct Seen {
    bool exists = false;
    std::uint64_t version = 0;
    Micros now = 0, updated = 0;
    Deadline sent{};  // before the read was sent
    Holders holders;  // as stored
    // with foreign leases prolonged by `skew`, and the relevant waiters
    LockState state;
    std::optional<std::uint64_t> ticket;  // of the asking owner's row
    bool queue = false;                   // there are rows of waiters, dead or alive
    bool marked = false;                  // `waiters`
    std::string wake;                     // the bell of a holder that was granted a free key
    bool read_only = false;               // the server became read-only
    std::optional<Start> start;           // noted, and still needed
    FencingToken revoked = 0;  // holders with this token or an older one were asked to stop
  };

  // The expected row, after the last grant or renewal.
  struct Known {
    std::uint64_t version = 0;
    Holders holders;
    // not 0: granted in one statement, which does not return the server's time: it ends this long
    // after `updated`
    Micros ttl = 0;
    // a release without waiters is quiet; with waiters the end of this bell wakes them
    std::string wake{};
    std::string meta{};  // of a grant in one statement, which `holders` do not list
  };

  // The owner to wait for; `name` empty: there is none, so only time (`free_at`) or polling is
  // left.
  struct Target {
    std::string name;
    Owner owner;
    bool holder = false;
    bool any_of_several = false;  // the end of others may help as well
  };
  struct Answered {
    LockState::Answer answer;
    bool held = false;  // by an earlier request of the same owner
    Deadline sent{};    // before the read was sent on which this was decided
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
    // no session has names of this owner: if the key is free without waiters, one statement takes
    // it
    bool untried = true;
    // over this session: the queue is probably empty, and the named locks must be taken
    bool first = true;
    std::string give_up{};  // a named lock that it may have from a wait: the next reading ends it
    std::optional<Seen> seen{};  // read already, behind a wait
    unsigned distance = 16;      // how many places ahead to wait for
    // Room for each of those ahead and for us, as it was seen: since when, and before which grant.
    struct Room {
      FencingToken fence;
      Micros since;
    };
    std::optional<Room> room{};
  };
  // Grants, queues or refuses. May be repeated.
  Result<Answered> acquire(Connection&, Asking&, Deadline until);
  // Waits for a named lock, and reads behind that: listen() sends both, heard() reads the answer.
  Result<void> listen(Connection&, Asking&, const std::string& lock, Duration wait);
  struct Heard {
    bool obtained;
    Seen seen;
  };
  Result<Heard> heard(Connection&, Asking&, Answer, Deadline sent, Deadline until);

  struct Renewed {
    std::optional<FencingToken> token;  // none: lost
    Deadline sent{};
    std::uint64_t version = 0;
    Holders holders;
    LockState::Holder mine;
    bool revoked = false;
  };
  // `ended`: how the job under the lease ended (RunEnd::text), for the record of the last run;
  // empty: there was none.
  Result<Renewed> renew(Connection&, const std::string& name, const Owner&, Micros ttl,
                        Deadline until, std::string_view ended = {});

  // True: it was held. `known`: saves the read; without its bell if there were no waiters.
  Result<bool> release(Connection&, const std::string& name, const Owner&, Known*, Deadline until,
                       std::string_view ended = {});
  // What is kept of the last run.
  Result<std::optional<LastRun>> last_run(Connection&, const std::string& name, Deadline until);
  // Releases the session's bell if that is `known`'s.
  Result<void> ring(Connection&, const Known&, Deadline until);
  // Another session has the name of this grant now: `wake` is cleared.
  Result<void> forget_bell(Connection&, const std::string& name, std::uint64_t version,
                           Deadline until);
  // Leaves the queue and releases a grant.
  Result<std::pair<bool, bool>> cancel(Connection&, const std::string& name, const Owner&,
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
  Result<Answer> keys(Connection&, const std::string& prefix, Deadline until);
  Result<std::vector<LockState::Waiter>> waiters(Connection&, const std::string& name,
                                                 Deadline until);
  // Releases those of the owner's named locks that this session has.
  Result<void> free_names(Connection&, const Owner&, Deadline until);
  std::string alive(std::string_view row) const;  // an SQL condition

  std::uint64_t conflicts() const noexcept { return conflicts_; }

 private:
  // `join`: puts the owner into the queue before it, in the same exchange.
  Result<Seen> read(Connection&, Asking&, bool join, Deadline until);
  std::string read_in_sql(const Connection&, const Asking&) const;
  std::vector<std::string> missing_names(const Connection&, const Asking&) const;
  Result<Seen> completed(Connection&, Asking&, const Answer&, Deadline sent, Deadline until);
  Result<void> read_all_ahead(Connection&, const Asking&, Seen&, Deadline until);
  Result<bool> pass_the_frozen(Connection&, Asking&, Seen&, Deadline until);
  Result<std::optional<Answered>> take_free(Connection&, const Asking&, Deadline until);
  std::string swap_in_sql(const std::string& name, std::uint64_t version, const Holders&,
                          FencingToken fence, std::string_view also) const;
  // `also`: further assignments, each with its comma.
  Result<bool> swap(Connection&, const std::string& name, std::uint64_t version, const Holders&,
                    FencingToken fence, std::string_view also, Deadline until);
  Result<Answer> give_back(Connection&, const std::string& name, const Owner&, const Known&,
                           bool quietly, std::string_view behind, Deadline until,
                           std::string_view ended);
  Result<void> mark(Connection&, const std::string& name, Deadline until);
  Result<void> make_row(Connection&, const Asking&, Deadline until);
  Result<bool> grant(Connection&, const Asking&, const Seen&, const Holders&, FencingToken fence,
                     bool sweep, Deadline until);
  std::string join_in_sql(const Connection&, const Asking&) const;
  Result<void> leave_queue(Connection&, const std::string& name, const Owner&,
                           std::optional<std::uint64_t> ticket, Deadline until);
  static Result<Seen> parse(const Connection&, const Answer&, Deadline sent);
  void prolong(Seen&, const Owner& me) const;
  Holders shortened(const Seen&, const LockState&, const Owner& me) const;
  static Target target(const Seen&, const LockState::Ask&);
  Result<void> back_off(unsigned conflict, Deadline until);

  Setup setup_;
  std::string run_in_sql(const Seen&, const Owner&, std::string_view ended) const;

  const Template take_, give_, give_run_;
  std::uint64_t conflicts_ = 0;
};

std::string hold_name(const Owner&);
// an SQL expression: takes it, once, and returns 1 if this session has it
std::string have_name(const std::string& name);
std::string queue_name(const Owner&, Mode);
// Of a request of several statements: with fewer results than those the outcome is not known.
Result<Answer> all_of(Connection&, std::string_view what, unsigned statements, Result<Answer>);

}  // namespace dlock::mysql
