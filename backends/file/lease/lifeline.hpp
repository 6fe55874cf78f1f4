// SPDX-License-Identifier: Apache-2.0
// A FIFO named by a ticket: a contender's proof of life, mailbox and watch in one object.
//
// Its owner has it open O_RDWR. Other processes open it O_WRONLY|O_NONBLOCK: ENXIO proves that the
// owner is dead; success gives a descriptor that reports POLLERR once the last reader is gone, and
// one byte written to it wakes the owner. The proof belongs to the open file description, so a
// process with a duplicate (the guard) keeps it up. No pid is ever used.
//
// Names are never reused for another FIFO: a process still watching the old one would take its end
// for the death of the new owner. Only the owner of a record may open its existing FIFO again
// (rejoin), and only under the lock of the state.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <vector>
#include "core/error.hpp"
#include "file/directory.hpp"

namespace dlock::file {

std::string fifo_name(std::uint64_t ticket);
// nothing: not such a name
std::optional<std::uint64_t> ticket_of(std::string_view fifo_name) noexcept;

// The directory of a key, as open now.
struct Place {
  int dir;
  unsigned epoch;  // changes when it had to be opened again: it may be another directory then
  const Access& access;
  std::string_view path;
  dev_t device;  // of the state file, as open now
  ino_t inode;   // 0: none
};

// False: that state was deleted, replaced or renamed. Its successor decides what the names are for.
bool state_is_at(const Place&) noexcept;

class Lifeline {
 public:
  Lifeline() = default;
  Lifeline(Lifeline&& other) noexcept = default;
  Lifeline& operator=(Lifeline&& other) noexcept = default;

  // Under the lock of the state. A dead FIFO of that name is replaced: its maker ended before it
  // could commit the ticket. nullopt: a living one is there, unknown to the state, or the state is
  // not in its place any more.
  static Result<std::optional<Lifeline>> make(const Place&, std::uint64_t ticket);
  // Under the lock of the state. nullopt: there is none.
  static Result<std::optional<Lifeline>> rejoin(const Place&, std::uint64_t ticket);

  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  int fd() const noexcept { return fd_.get(); }
  std::uint64_t ticket() const noexcept { return ticket_; }
  bool linked() const noexcept;  // false: its name was deleted
  // Whether others find it at this place. False: they cannot see that we live.
  bool is_at(const Place&) noexcept;
  void drain() const noexcept;

  // Ends our proof of life and removes its name, unless the state is gone: see the interleaving.
  void drop(const Place&) noexcept;
  void drop() noexcept;  // leaves the name, so that others find it dead

 private:
  Lifeline(std::uint64_t ticket, unsigned epoch, Fd fd)
      : ticket_(ticket), epoch_(epoch), fd_(std::move(fd)) {}

  std::uint64_t ticket_ = 0;
  unsigned epoch_ = 0;  // of the place where it was last seen
  Fd fd_{};
};

struct Probe {
  // missing: its name was deleted, which proves nothing
  enum class Life { alive, dead, missing } life;
  Fd fd{};  // alive: to watch and to notify
};
// An Error is our own problem (descriptors, permission), no death.
Result<Probe> probe(const Place&, std::uint64_t ticket);

bool ended(int watched_fd) noexcept;  // POLLERR on a descriptor of probe(): the same proof as ENXIO

// One byte for each. A process that has just died does no harm (SIGPIPE), and a full mailbox was
// notified already.
void knock(const std::vector<Fd>& doors) noexcept;

}  // namespace dlock::file
