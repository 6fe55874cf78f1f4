// SPDX-License-Identifier: Apache-2.0
// What dlock stores about a file of recipe flock and must not write into it: the newest token, and
// its own holders. It is beside the file, in <directory>/.dlock/<name>/, in the format of recipe
// lease.
//
// The kernel's lock decides who holds; this record gives each grant its token and shows people the
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
    Lifeline mailbox;  // readable: a forced release was requested
  };
  // Writes the grant for the lock of `locked`, and marks the file.
  Result<Entry> enter(const Request&, int locked);
  // Writes `holder` again, after the record was lost.
  Result<void> enter_again(const LockState::Holder&);
  // Of this holder, if it is there: Lease::ended.
  Result<void> note_end(const Owner&, std::string_view ended);
  // True: it was there, and not evicted.
  Result<bool> leave(const Owner&, Lifeline& mailbox);
  // Evicts the holders with this token, or all: notifies them and invalidates their records. The
  // lock itself stays theirs until they release it.
  struct Evicted {
    std::size_t now = 0, before = 0;
  };
  Result<Evicted> evict(std::optional<FencingToken>, int file);

  // Without a lock. nullopt: unknown.
  Result<std::optional<LockState>> peek();

 private:
  Result<KeyRecord> begin(Make, Duration patience);
  Result<bool> end(const KeyRecord&);

  StateFile file_;
  const std::string key_;
  const Duration patience_;
};

// The holder was asked to release; its grant is not valid any more.
bool evicted(const LockState::Holder&) noexcept;

}  // namespace dlock::file
