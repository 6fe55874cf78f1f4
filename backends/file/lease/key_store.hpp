// SPDX-License-Identifier: Apache-2.0
// One key of recipe lease: a LockState under the lock of its state file, and the lifelines of its
// contenders.
//
// A change is: begin, change `state()`, finish. In between no other process sees or changes the
// key. `finish` finds the waiters that may run now, commits, unlocks, and only then wakes them, so
// nothing is visible before the commit.
#pragma once
#include <string>
#include <vector>
#include "file/lease/lifeline.hpp"
#include "file/lease/state_file.hpp"
#include "store/backend.hpp"

namespace dlock::file {

struct Tuning {
  // an invited waiter that does not claim its turn within this time (it is stopped) loses its place
  Micros claim = 2'000'000;
  // how often a sleeping waiter checks for that; wake-ups do not depend on it
  Micros safety = 10'000'000;
  QueueLimits queue{};
};

class KeyStore {
 public:
  KeyStore(const Directory& where, const Key& key, const std::string& name, const Tuning& tuning)
      : key_(key), tuning_(tuning), file_(where, name, tuning.queue) {}

  // Locks and loads. Locked: call finish() or abandon(). A missing state is rebuilt from the living
  // contenders: each blocks the key as an exclusive holder without a token, until it ends or
  // registers itself again (disown).
  using Begun = StateFile::Locking;
  Result<Begun> begin(Make, Duration patience, int interrupt_fd = -1);
  void abandon() noexcept;

  // Of a long queue it has only the first waiters: enough for a holder's changes, and for those of
  // a waiter among them.
  LockState& state() noexcept { return record_.state; }
  // Loads what this owner's change needs: the other waiters, too, unless it is one of the first.
  Result<void> load_for(const Owner&);
  // For a new owner: StateFile::last_in_tail. Nothing: call load_for() instead.
  std::optional<std::uint64_t> last_waiter() const { return file_.last_in_tail(record_, now_); }
  std::size_t waiters() const noexcept {
    return record_.state.waiters.size() + record_.tail.lines - record_.tail.gone.size();
  }
  // Joins after last_waiter(), and returns the new ticket.
  std::uint64_t join(const LockState::Acquisition&);
  Micros now() const noexcept { return now_; }
  LifelineDir place() const noexcept { return file_.place(); }
  StateFile& file() noexcept { return file_; }

  // The contender with this ticket is proven dead: the commit removes its name, and a lock-delay
  // runs from now.
  void remove_dead(std::uint64_t ticket);
  // Another process, which found no state, took our own lifeline for a holder. True: it did, and
  // that holder is removed.
  bool remove_adopted(const Lifeline&);
  // Begins the change again, and takes every living lifeline that the state does not know for a
  // holder.
  Result<void> restart_and_adopt();

  // wakes this holder after the commit
  void alarm(std::uint64_t ticket) { alarms_.push_back(ticket); }
  // what the first waiter waits for has changed
  void wake_head() noexcept { wake_head_ = true; }
  // Removes FIFOs that no process has open and the state does not list. Contenders killed at a bad
  // moment leave them behind.
  Result<void> sweep() { return scan(false); }

  // False: the state file was deleted meanwhile; begin again. An Error: nothing was committed. It
  // is unlocked in every case.
  Result<bool> finish();

  // The current state, read without the lock. Dead holders are shown as vanished or ended; dead
  // waiters are left out. nullopt: unknown. KeyView::unread: the state was deleted, and contenders
  // live.
  Result<std::optional<KeyView>> inspect();
  // This holder, if it is in force and alive as far as can be known; nullopt: it is not.
  Result<std::optional<LockState::Holder>> holder_in_force(const GrantId&);

 private:
  Result<void> load();
  Result<void> scan(bool adopt);
  Result<std::optional<KeyView>> inspect_without_state();
  void remove_names(const std::vector<std::uint64_t>&) const;
  Result<void> other_boot();
  Result<std::vector<Fd>> mailboxes();
  Result<std::size_t> remove_dead_holders(LockState&, Micros now) const;

  const Key key_;
  const Tuning& tuning_;
  StateFile file_;
  KeyRecord record_;
  Micros now_ = 0;
  bool wake_head_ = false;
  std::vector<std::uint64_t> dead_, strays_, alarms_;
};

// Abandons an unfinished change whenever a function returns.
class Change {
 public:
  explicit Change(KeyStore& key) noexcept : key_(key) {}
  ~Change() { key_.abandon(); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  KeyStore& key_;
};

bool adopted(const LockState::Holder&) noexcept;

}  // namespace dlock::file
