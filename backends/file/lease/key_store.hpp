// SPDX-License-Identifier: Apache-2.0
// One key of recipe lease: a LockState under the lock of its state file, and the lifelines of its
// contenders.
//
// A change has three steps: begin(), change `state()`, finish(). Meanwhile no other process can
// change the key, and readers see the old state. `finish` determines which waiters may run now,
// commits, unlocks, and only then wakes these waiters.
#pragma once
#include <string>
#include <vector>
#include "file/lease/lifeline.hpp"
#include "file/lease/state_file.hpp"
#include "store/backend.hpp"

namespace dlock::file {

struct Tuning {
  // An invited waiter that does not claim its turn within this time loses its place.
  Micros claim = 2'000'000;
  // How often a sleeping waiter checks whether a turn was missed because the waiters ahead are
  // stopped. Wake-ups do not depend on this check.
  Micros safety = 10'000'000;
  QueueLimits queue{};
};

class KeyStore {
 public:
  KeyStore(const Directory& where, const Key& key, const std::string& name, const Tuning& tuning)
      : key_(key), tuning_(tuning), file_(where, name, tuning.queue) {}

  // Locks and loads the state. After Begun::locked, call finish() or abandon(). If the state is
  // missing, it is rebuilt from the living contenders: each of them blocks the key as an exclusive
  // holder without a token, until it ends or registers itself again (remove_adopted).
  using Begun = StateFile::Locking;
  Result<Begun> begin(Make, Duration patience, int interrupt_fd = -1);
  void abandon() noexcept;

  // If the queue is long, the state has only the first waiters. They are enough to change a holder
  // or one of these waiters.
  LockState& state() noexcept { return record_.state; }
  // If the owner is not one of the first waiters, loads all waiters. A change by one of the first
  // waiters does not need the others.
  Result<void> load_for(const Owner&);
  // Returns the ticket of the last waiter, if a new owner may join behind that waiter without
  // load_for(). nullopt: call load_for() instead (StateFile::last_in_tail()).
  std::optional<std::uint64_t> last_waiter() const { return file_.last_in_tail(record_, now_); }
  std::size_t waiters() const noexcept {
    return record_.state.waiters.size() + record_.tail.lines - record_.tail.gone.size();
  }
  // Adds a new waiter behind last_waiter(), and returns the ticket of the new waiter.
  std::uint64_t join(const LockState::Acquisition&);
  Micros now() const noexcept { return now_; }
  LifelineDir place() const noexcept { return file_.place(); }
  StateFile& file() noexcept { return file_; }

  // Removes the contender with this ticket from the state, because it is proven dead. If it was a
  // holder, its lock-delay begins now. finish() removes the name of its FIFO.
  void remove_dead(std::uint64_t ticket);
  // Another process that found no state may have taken our own lifeline for a holder. Removes that
  // holder, and returns whether there was one.
  bool remove_adopted(const Lifeline&);
  // Begins the change again. Each living lifeline that the state does not list becomes a holder.
  Result<void> restart_and_adopt();

  // Makes finish() wake this holder after the commit.
  void alarm(std::uint64_t ticket) { alarms_.push_back(ticket); }
  // Makes finish() wake the first waiter after the commit, even if that waiter is not invited. Call
  // it if what the first waiter must watch has changed.
  void wake_head() noexcept { wake_head_ = true; }
  // Removes each FIFO that no process has open and that the state does not list. Contenders that
  // are killed at a bad moment leave such FIFOs.
  Result<void> sweep() { return scan(false); }

  // Commits, unlocks, and wakes waiters. False: the state file was deleted meanwhile, so the change
  // does not count; begin again. An Error: nothing was committed. The state is unlocked in every
  // case.
  Result<bool> finish();

  // Returns the current state, read without the lock. Dead holders are shown as vanished or ended;
  // dead waiters are left out. nullopt: there is no record of the key. KeyView::unknown_reason is
  // set if the state was deleted, but contenders live.
  Result<std::optional<KeyView>> inspect();
  // Returns this holder, if it is in force and not proven dead.
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

// Abandons an unfinished change when a function returns.
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
