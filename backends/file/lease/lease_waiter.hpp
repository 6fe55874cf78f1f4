// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>
#include "file/lease/lease_backend.hpp"

namespace dlock::file {

// A place in the queue of a key. It sleeps in ppoll(2) on its own lifeline (for notifications) and
// on those whose end can make it its turn: its predecessor in the queue; for the first, every
// holder.
//
// An exclusive waiter is woken once: its predecessor in the queue becomes the holder, so it watches
// the right one already.
class LeaseWaiter final : public Waiter {
 public:
  LeaseWaiter(LeaseBackend& backend, KeyStore& key, const Request& request)
      : backend_(backend), key_(key), request_(request) {}

  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  struct Watched {
    std::uint64_t ticket;
    Fd fd;
  };
  enum class Woken { by_event, by_time, by_interrupt };

  Result<Progress> attempt();
  Result<std::optional<Progress>> change(bool fresh);
  LockState::Ask ask() const;
  Result<void> rejoin();
  Result<std::optional<LockState::Answer>> join(std::uint64_t& ticket);
  Result<LockState::Answer> decide();
  Result<bool> holder_is_gone();
  Result<bool> watch(const std::vector<std::uint64_t>& wanted, bool holders);
  Result<std::optional<Lifeline>> lifeline_for(std::uint64_t ticket, bool& unknown_one);
  Granted granted(const LockState::Granted&, Deadline sent);
  Result<Woken> sleep(Deadline until);
  Waiting in_the_way(const LockState&, Micros now);
  bool refresh();

  LeaseBackend& backend_;
  KeyStore& key_;
  const Request request_;
  Lifeline life_;
  std::vector<Watched> watched_;
  bool asked_ = false, queued_ = false;  // asked_: the state may know our owner
  Waiting last_;
  std::uint64_t shown_ = 0;          // the ticket of its holder, if that is a process
  std::uint64_t seen_change_ = 0;    // the change that last_ describes
  Deadline wake_at_ = no_deadline;   // when time alone may make it our turn
  Deadline check_at_ = no_deadline;  // when to check for an unclaimed invitation
  unsigned checks_ = 0;
};

}  // namespace dlock::file
