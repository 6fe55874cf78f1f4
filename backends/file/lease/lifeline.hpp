// SPDX-License-Identifier: Apache-2.0
// A FIFO named by a ticket. In one object it is a contender's proof of life, its mailbox, and what
// others watch.
//
// Its owner has it open O_RDWR. Other processes open it O_WRONLY|O_NONBLOCK. ENXIO proves that the
// owner is dead. Success gives a descriptor that reports POLLERR when the last reader is gone; one
// byte written to it wakes the owner. The proof belongs to the open file description, so a process
// with a duplicate (the guard) also keeps it alive. No pid is ever used.
//
// A name is never used for another FIFO: a process that still watches the old FIFO would take its
// end for the death of the new owner. Only the owner of a record may open its existing FIFO again
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
// nothing: the name is no lifeline's
std::optional<std::uint64_t> ticket_of(std::string_view fifo_name) noexcept;

// The directory of a key, as it is open now.
struct LifelineDir {
  int dir;
  unsigned epoch;  // changes if the directory is opened again: it may be another one
  const Access& access;
  std::string_view path;
  dev_t device;  // of the state file that is open now
  ino_t inode;   // 0: none
};

// False: the state was deleted, replaced or renamed. Then its successor decides about the names.
bool state_is_at(const LifelineDir&) noexcept;

class Lifeline {
 public:
  Lifeline() = default;
  Lifeline(Lifeline&& other) noexcept = default;
  Lifeline& operator=(Lifeline&& other) noexcept = default;

  // Call it under the lock of the state. It replaces a dead FIFO of that name, whose maker ended
  // before it could commit the ticket. nullopt: a living FIFO, unknown to the state, has the name;
  // or the state is no longer in its place.
  static Result<std::optional<Lifeline>> make(const LifelineDir&, std::uint64_t ticket);
  // Call it under the lock of the state. nullopt: there is no such FIFO.
  static Result<std::optional<Lifeline>> rejoin(const LifelineDir&, std::uint64_t ticket);

  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  int fd() const noexcept { return fd_.get(); }
  std::uint64_t ticket() const noexcept { return ticket_; }
  bool linked() const noexcept;  // false: its name was deleted
  // Returns whether others find it at this place. If they do not, they cannot see that we live.
  bool is_at(const LifelineDir&) noexcept;
  void drain() const noexcept;

  // Ends our proof of life. It removes the name, unless the state is gone: see interleaving 3.
  void drop(const LifelineDir&) noexcept;
  void drop() noexcept;  // keeps the name, so that others find the FIFO dead

 private:
  Lifeline(std::uint64_t ticket, unsigned epoch, Fd fd)
      : ticket_(ticket), epoch_(epoch), fd_(std::move(fd)) {}

  std::uint64_t ticket_ = 0;
  unsigned epoch_ = 0;  // the epoch of the place where it was last seen
  Fd fd_{};
};

struct Probe {
  // missing: the name was deleted, which proves nothing
  enum class Life { alive, dead, missing } life;
  Fd fd{};  // if alive: a descriptor to watch it and to notify its owner
};
// An Error is a problem of this process (descriptors, permission), and proves no death.
Result<Probe> probe(const LifelineDir&, std::uint64_t ticket);

// POLLERR on a descriptor of probe() proves the same as ENXIO.
bool ended(int watched_fd) noexcept;

// Writes one byte to each mailbox. A process that has just died does no harm (SIGPIPE). If a
// mailbox is full, its owner was notified already.
void wake(const std::vector<Fd>& mailboxes) noexcept;

}  // namespace dlock::file
