// SPDX-License-Identifier: Apache-2.0
// A lifeline is a FIFO whose name is a ticket. It is a contender's proof of life, its mailbox, and
// what other contenders watch.
//
// The owner keeps the FIFO open O_RDWR. Another process opens it O_WRONLY|O_NONBLOCK. If that fails
// with ENXIO, the owner is dead. Otherwise the process gets a descriptor that reports POLLERR when
// the last reader is gone, and a byte written to that descriptor wakes the owner. The lifeline
// lives as long as the owner's open file description, so a process with a duplicate descriptor (the
// guard) also keeps the lifeline alive. No pid is ever used.
//
// Once a ticket is committed, no second FIFO gets its name: a process that still watches the old
// FIFO would take the end of the old FIFO for the death of the new owner. Only the owner of a
// record may open the FIFO of that record again (rejoin), and only under the lock of the state.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <vector>
#include "core/error.hpp"
#include "file/directory.hpp"

namespace dlock::file {

std::string fifo_name(std::uint64_t ticket);
// nullopt: the name is not that of a lifeline
std::optional<std::uint64_t> ticket_of(std::string_view fifo_name) noexcept;

// The directory of a key, as it is open now.
struct LifelineDir {
  int dir;
  unsigned epoch;  // changes when the path is opened again, because it may lead elsewhere
  const Access& access;
  std::string_view path;
  dev_t device;  // of the state file that is open now
  ino_t inode;   // of the same state file; 0: no state file is open
};

// Returns whether the state file that is open is still in its place. If it was deleted, replaced or
// renamed, only processes that use its successor may remove names of FIFOs.
bool state_is_at(const LifelineDir&) noexcept;

class Lifeline {
 public:
  Lifeline() = default;
  Lifeline(Lifeline&& other) noexcept = default;
  Lifeline& operator=(Lifeline&& other) noexcept = default;

  // Makes and opens the FIFO for a new ticket. Call it under the lock of the state. It replaces a
  // dead FIFO of that name: the maker of that FIFO ended before it could commit the ticket.
  // nullopt: a living FIFO that the state does not list has the name, or the state is no longer in
  // its place.
  static Result<std::optional<Lifeline>> make(const LifelineDir&, std::uint64_t ticket);
  // Opens the FIFO of our own record again. Call it under the lock of the state. nullopt: there is
  // no such FIFO.
  static Result<std::optional<Lifeline>> rejoin(const LifelineDir&, std::uint64_t ticket);

  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  int fd() const noexcept { return fd_.get(); }
  std::uint64_t ticket() const noexcept { return ticket_; }
  bool linked() const noexcept;  // false: its name was deleted
  // Returns whether other processes find this FIFO in this directory. If not, they cannot see that
  // we live.
  bool is_at(const LifelineDir&) noexcept;
  void drain() const noexcept;

  // Closes the FIFO, which ends our proof of life, and removes its name unless the state is gone:
  // see interleaving 3 in lifeline.cpp.
  void drop(const LifelineDir&) noexcept;
  void drop() noexcept;  // keeps the name, so that others find the FIFO dead

 private:
  Lifeline(std::uint64_t ticket, unsigned epoch, Fd fd)
      : ticket_(ticket), epoch_(epoch), fd_(std::move(fd)) {}

  std::uint64_t ticket_ = 0;
  unsigned epoch_ = 0;  // the epoch at which is_at() last found the FIFO in its place
  Fd fd_{};
};

struct Probe {
  // missing: the name was deleted, which proves nothing
  enum class Life { alive, dead, missing } life;
  Fd fd{};  // if alive: a descriptor to watch the FIFO and to notify its owner
};
// An Error is a problem of this process (descriptors, permission), and proves no death.
Result<Probe> probe(const LifelineDir&, std::uint64_t ticket);

// Returns whether the owner of a FIFO is dead. `watched_fd`: a descriptor of probe(). POLLERR on it
// proves the same as ENXIO.
bool ended(int watched_fd) noexcept;

// Writes one byte to each mailbox. If the owner of a mailbox has just died, the SIGPIPE is
// discarded. If a mailbox is full, its owner was notified already.
void wake(const std::vector<Fd>& mailboxes) noexcept;

}  // namespace dlock::file
