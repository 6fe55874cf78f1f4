// SPDX-License-Identifier: Apache-2.0
// A FIFO named by a ticket: a contender's proof of life, mailbox and watch in one object.
//
// Its owner has it open O_RDWR. Anybody else opens it O_WRONLY|O_NONBLOCK: ENXIO proves that the owner is dead; success
// gives a descriptor that reports POLLERR once the last reader is gone, and one byte written to it wakes the owner. The proof
// belongs to the open file description, so whoever has a duplicate (the guard) keeps it up. No process id is ever used.
//
// Names are never used twice with another FIFO behind them: who still watches the old one would take its end for the death
// of the new owner. Only the owner of a record may open its existing FIFO again (rejoin), and only under the lock of the state.
#pragma once
#include <cstdint>
#include <string>
#include <vector>
#include "core/error.hpp"
#include "file/directory.hpp"

namespace dlock::file {

std::string fifo_name(std::uint64_t ticket);
std::optional<std::uint64_t> ticket_of(std::string_view fifo_name) noexcept;  // nothing: not such a name

class Lifeline {
 public:
  Lifeline() = default;
  Lifeline(Lifeline&& other) noexcept = default;
  Lifeline& operator=(Lifeline&& other) noexcept = default;

  // Under the lock of the state. A dead FIFO of that name is replaced: its maker ended before it could commit the ticket.
  // nullopt: a live one is there, which the state does not know about.
  static Result<std::optional<Lifeline>> make(int dir, std::uint64_t ticket, const Access&, std::string_view dir_path);
  // Under the lock of the state. nullopt: there is none.
  static Result<std::optional<Lifeline>> rejoin(int dir, std::uint64_t ticket, const Access&, std::string_view dir_path);

  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  int fd() const noexcept { return fd_.get(); }
  std::uint64_t ticket() const noexcept { return ticket_; }
  bool linked() const noexcept;  // false: its name was deleted, so others cannot see that we live
  void drain() const noexcept;

  // Ends our proof of life. `dir`: removes the name as well; -1 leaves it, so that others find it dead.
  void drop(int dir) noexcept;

 private:
  Lifeline(std::uint64_t ticket, Fd fd) : ticket_(ticket), fd_(std::move(fd)) {}

  std::uint64_t ticket_ = 0;
  Fd fd_{};
};

struct Sight {
  enum class Life { alive, dead, missing } life;  // missing: somebody deleted the name, which proves nothing
  Fd fd{};                                        // alive: to watch and to knock
};
// An Error is our own trouble (descriptors, permission), no death.
Result<Sight> look(int dir, std::uint64_t ticket, std::string_view dir_path);

bool ended(int watched_fd) noexcept;  // POLLERR on a descriptor that look() gave: the same proof as ENXIO

// One byte for each. Nobody who has just died can hurt us (SIGPIPE), and a full mailbox has been told already.
void knock(const std::vector<Fd>& doors) noexcept;

}  // namespace dlock::file
