// SPDX-License-Identifier: Apache-2.0
// Recipe `lease` in the database. LockState decides; here it is loaded, and what it decided is written.
//
// dlock_lock has a row per key: holders, newest token, version. Every change of it is one UPDATE that names the version it was
// decided on; exclusion rests on that alone. dlock_wait has a row per waiter, inserted and deleted by its owner; rows only join
// at the tail, so what was seen ahead of a waiter can only become less.
//
// Named locks tell who lives: `dl:<owner>` from before the enqueue until the release, and for shared waiters and permits also
// `dq:<owner>` until the grant, so that the next of them moves up. They wake; a free one never means a free lock.
#pragma once
#include <optional>
#include <string>
#include <variant>
#include "core/lock_state.hpp"
#include "mysql/connection.hpp"
#include "mysql/lease_record.hpp"

namespace dlock::mysql {

// The server's clock in microseconds since 1970, fixed when a statement starts: before the row is read, so expiry is judged late, never early.
inline constexpr std::string_view server_clock = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";

class LeaseTable {
 public:
  struct Setup {
    std::string_view clock = server_clock;  // the model test sets its own
    bool named = true;                      // named locks exist here
    Micros skew = 0;                        // a foreign lease ends so much later
    Micros patience = 6'000'000;            // without named locks: a waiter that is silent for so long is gone
    Micros claim = 3'000'000;               // a free key is left to each waiter ahead for so long
  };
  explicit LeaseTable(Setup setup) : setup_(setup) {}
  void set_named(bool named, Micros skew) noexcept { setup_.named = named, setup_.skew = skew; }
  const Setup& setup() const noexcept { return setup_; }

  // What was read of a key, for one who asks.
  struct Seen {
    bool exists = false;
    std::uint64_t version = 0;
    Micros now = 0, updated = 0;
    Deadline sent{};                      // before the reading left
    Holders holders;                      // as stored
    LockState state;                      // with foreign leases prolonged by `skew`, and those waiters that matter
    std::optional<std::uint64_t> ticket;  // of the asking owner's row
    bool queue = false;                   // there are rows of waiters, dead or alive
    std::optional<Micros> started, started_until;
  };

  // What is probably still there, of the last grant or renewal.
  struct Known {
    std::uint64_t version = 0;
    Holders holders;
    Micros ttl = 0;  // not 0: granted in one statement, which does not tell the server's time: its end is so long after `updated`
  };

  // Whom to wait for; `name` empty: nobody who could be waited for, so time alone (`free_at`) or asking again.
  struct Target {
    std::string name;
    Owner owner;
    bool holder = false;
    bool any_of_several = false;  // the end of others may do as well
  };
  struct Outcome {
    LockState::Answer answer;
    bool held = false;  // by an earlier request of the same owner
    Deadline sent{};    // before the reading left on which this was decided
    Micros now = 0;
    std::uint64_t version = 0;
    Known known;        // after a grant
    Target target;      // of Waiting
    bool idle = false;  // nobody holds it: those ahead only have to claim it
    std::optional<LockState::Holder> in_the_way;
    unsigned conflicts = 0;
  };

  struct Asking {
    std::string name;  // in the store
    std::string key;   // the full one
    LockState::Ask ask;
    bool untried = true;     // no session has names of this owner: if the key is free and nobody waits, one statement takes it
    bool first = true;       // over this session: the queue is probably empty, and the named locks are to be taken
    std::string give_up{};   // a named lock to release on the way
    unsigned distance = 16;  // places ahead of whom to wait for
  };
  // Grants, queues or refuses. Repeating it is harmless.
  Result<Outcome> acquire(Connection&, Asking&, Deadline until);

  struct Renewed {
    std::optional<FencingToken> token;  // none: lost
    Deadline sent{};
    std::uint64_t version = 0;
    Holders holders;
    LockState::Holder mine;
  };
  Result<Renewed> renew(Connection&, const std::string& name, const Owner&, Micros ttl, Deadline until);

  // True: it was held. `known`: saves the reading.
  Result<bool> release(Connection&, const std::string& name, const Owner&, const Known*, Deadline until);
  // Leaves the queue and gives back what was granted.
  Result<std::pair<bool, bool>> cancel(Connection&, const std::string& name, const Owner&, Deadline until);
  Result<std::size_t> force_release(Connection&, const std::string& name, FencingToken, Deadline until);
  Result<Seen> look(Connection&, const std::string& name, Deadline until);
  // False: the lease is not in force.
  Result<bool> note_start(Connection&, const std::string& name, const Owner&, std::optional<Micros> at, Micros keep,
                          Deadline until);

  Result<std::size_t> ahead(Connection&, const std::string& name, const Owner&, Deadline until);
  Result<void> say_alive(Connection&, const std::string& name, const Owner&, Deadline until);
  Result<Answer> keys(Connection&, const std::string& prefix, Deadline until);
  Result<std::vector<LockState::Waiter>> waiters(Connection&, const std::string& name, Deadline until);
  // Releases those of the owner's named locks that this session has.
  Result<void> free_names(Connection&, const Owner&, Deadline until);
  std::string alive(std::string_view row) const;  // an SQL condition

  std::uint64_t conflicts() const noexcept { return conflicts_; }

 private:
  Result<Seen> read(Connection&, const Asking&, Deadline until);
  Result<void> read_all_ahead(Connection&, const Asking&, Seen&, Deadline until);
  Result<void> pass_the_frozen(Connection&, const Asking&, Seen&, Deadline until);
  Result<std::optional<Outcome>> take_free(Connection&, const Asking&, Deadline until);
  Result<bool> swap(Connection&, const std::string& name, std::uint64_t version, const Holders&, FencingToken fence,
                    std::string_view more, std::string_view after, Deadline until);
  Result<void> make_row(Connection&, const Asking&, Deadline until);
  Result<void> queue_up(Connection&, const Asking&, Deadline until);
  Result<void> leave_queue(Connection&, const std::string& name, const Owner&, std::optional<std::uint64_t> ticket, bool sweep,
                           Deadline until);
  static Result<Seen> parse(const Answer&, Deadline sent);
  void prolong(Seen&, const Owner& me) const;
  Holders shortened(const Seen&, const LockState&, const Owner& me) const;
  static Target target(const Seen&, const LockState::Ask&);
  Result<void> back_off(unsigned conflict, Deadline until);

  Setup setup_;
  std::uint64_t conflicts_ = 0;
};

std::string hold_name(const Owner&);
std::string queue_name(const Owner&, Mode);

}  // namespace dlock::mysql
