// SPDX-License-Identifier: Apache-2.0
// One key of recipe lease: a LockState under the lock of its state file, and the lifelines of its
// contenders.
//
// A change is: begin, change `state()`, finish. In between no other process sees or changes this
// key. `finish` determines the waiters that may run now, commits, unlocks, and only then wakes
// them: nothing is visible before the commit.
#pragma once
#include <string>
#include <vector>
#include "file/lease/lifeline.hpp"
#include "file/lease/state_file.hpp"
#include "store/backend.hpp"

namespace dlock::file {

struct Tuning {
  // an invited waiter that does not claim its turn within this (stopped) loses its place
  Micros claim = 2'000'000;
  // how often a sleeping waiter checks for such a case; this is not how it is woken
  Micros safety = 10'000'000;
  QueueLimits queue{};
};

class KeyStore {
 public:
  KeyStore(const Directory& where, const Key& key, const std::string& name, const Tuning& tuning)
      : key_(key), tuning_(tuning), file_(where, name, tuning.queue) {}

  // Locks and loads. Locked: call finish() or abandon(). A missing state is rebuilt from the living
  // contenders: each blocks the key as an exclusive holder without a token until it ends or
  // registers itself again (disown).
  using Begun = StateFile::Locking;
  Result<Begun> begin(Make, Duration patience, int interrupt_fd = -1);
  void abandon() noexcept;

  // Of a long queue only the first waiters: enough for what holders do, and for a waiter in there.
  LockState& state() noexcept { return record_.state; }
  // For what this owner does: the others too, unless it is one of the first waiters.
  Result<void> load_for(const Owner&);
  // For a new owner: StateFile::last_in_tail. Nothing: call load_for().
  std::optional<std::uint64_t> last_waiter() const { return file_.last_in_tail(record_, now_); }
  std::size_t waiters() const noexcept {
    return record_.state.waiters.size() + record_.tail.lines - record_.tail.gone.size();
  }
  // Behind that one, with a ticket of its own.
  std::uint64_t join(const LockState::Acquisition&);
  Micros now() const noexcept { return now_; }
  Place place() const noexcept { return file_.place(); }
  StateFile& file() noexcept { return file_; }

  // The contender with this ticket is proven dead: its name goes with the commit, a lock-delay runs
  // from now.
  void strike(std::uint64_t ticket);
  // Our own lifeline was adopted as a holder by a process that found no state. True: it was, and is
  // removed.
  bool disown(const Lifeline&);
  // Restarts the change, with every living lifeline unknown to the state adopted.
  Result<void> restart_and_adopt();

  // wake this holder after the commit
  void alarm(std::uint64_t ticket) { alarms_.push_back(ticket); }
  // what the first waiter waits for has changed
  void wake_head() noexcept { wake_head_ = true; }
  // Removes FIFOs that are not open in any process and not listed in the state: of contenders
  // killed at a bad moment.
  Result<void> sweep() { return scan(false); }

  // False: the state file was deleted meanwhile, begin again. An Error: nothing was committed.
  // Either way it is unlocked.
  Result<bool> finish();

  // The current state, without the lock; dead holders are shown as vanished or ended, dead waiters
  // are left out. nullopt: unknown. KeyView::unread: the state was deleted, and contenders live.
  Result<std::optional<KeyView>> inspect();
  // That holder, in force and alive as far as can be known; nullopt: none.
  Result<std::optional<LockState::Holder>> holder_in_force(const GrantId&);

 private:
  Result<void> load();
  Result<void> scan(bool adopt);
  Result<std::optional<KeyView>> inspect_without_state();
  void remove_names(const std::vector<std::uint64_t>&) const;
  Result<void> other_boot();
  Result<std::vector<Fd>> doors();
  Result<std::size_t> strike_dead(LockState&, Micros now) const;

  const Key key_;
  const Tuning& tuning_;
  StateFile file_;
  KeyRecord record_;
  Micros now_ = 0;
  bool wake_head_ = false;
  std::vector<std::uint64_t> dead_, strays_, alarms_;
};

// Abandons an unfinished change on every way out of a function.
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
