// SPDX-License-Identifier: Apache-2.0
// What dlock must store about a file of recipe flock, but cannot write into it: the newest token,
// and its own holders. The record is beside the file, in <directory>/.dlock/<name>/, in the format
// of recipe lease.
//
// The kernel's lock decides who holds. The record gives each grant its token, and shows people the
// holder. A holder in it counts only while its mark is on the file.
#pragma once
#include "file/flock/flock_file.hpp"
#include "file/lease/state_file.hpp"
#include "store/backend.hpp"

namespace dlock::file {

class FlockRecord {
 public:
  FlockRecord(const Directory& where, const std::string& name, std::string key, Duration patience);

  struct Entry {
    LockState::Holder holder;
    Lifeline mailbox;  // readable: somebody has requested a forced release
  };
  // Writes the grant for the lock of the open file `locked`, and marks the file.
  Result<Entry> enter(const Request&, int locked);
  // Writes `holder` again, after the record was lost.
  Result<void> enter_again(const LockState::Holder&);
  // Notes Lease::ended for this holder, if it is there.
  Result<void> note_end(const Owner&, std::string_view ended);
  // True: the holder was there and not evicted.
  Result<bool> leave(const Owner&, Lifeline& mailbox);
  // Evicts the holders with this token, or all: notifies them, and makes their records void. They
  // keep the lock itself until they release it.
  struct Evicted {
    std::size_t now = 0, before = 0;
  };
  Result<Evicted> evict(std::optional<FencingToken>, int file);

  // Reads the record without a lock. nullopt: unknown.
  Result<std::optional<LockState>> peek();

 private:
  Result<KeyRecord> begin(Make, Duration patience);
  Result<bool> end(const KeyRecord&);

  StateFile file_;
  const std::string key_;
  const Duration patience_;
};

// Whether the holder was asked to release; its grant is no longer valid.
bool evicted(const LockState::Holder&) noexcept;

}  // namespace dlock::file
