// SPDX-License-Identifier: Apache-2.0
// What dlock knows about a file of recipe flock and must not write into it: the newest token, and which of its own holders
// there are. It stands beside the file, in <directory>/.dlock/<name>/, in the format of recipe lease.
//
// The kernel's lock decides who holds; this record gives each grant its token and tells people who it is. A holder in it counts
// only while its mark is on the file.
#pragma once
#include "core/backend.hpp"
#include "file/flock_file.hpp"
#include "file/state_file.hpp"

namespace dlock::file {

class FlockRecord {
 public:
  FlockRecord(const Directory& where, const std::string& name, std::string key, Duration patience);

  struct Entry {
    LockState::Holder holder;
    Lifeline mailbox;  // readable: somebody wants the lock back
  };
  // Writes the grant that `locked` stands for, which must have the lock, and marks the file.
  Result<Entry> enter(const Request&, int locked);
  // Writes `holder` again, after the record was lost.
  Result<void> enter_again(const LockState::Holder&);
  // True: it was there, and not evicted.
  Result<bool> leave(const Owner&, Lifeline& mailbox);
  // Evicts the holders with this token, or all: knocks at them and takes their word away. The lock itself is theirs until they
  // let it go.
  struct Evicted {
    std::size_t now = 0, before = 0;
  };
  Result<Evicted> evict(std::optional<FencingToken>, int file);

  // Without a lock. nullopt: never heard of.
  Result<std::optional<LockState>> peek();

 private:
  Result<Record> begin(Make);
  Result<bool> end(const Record&);

  StateFile file_;
  const std::string key_;
  const Duration patience_;
};

// Somebody wants its lock back; what it was granted is not valid any more.
bool evicted(const LockState::Holder&) noexcept;

}  // namespace dlock::file
