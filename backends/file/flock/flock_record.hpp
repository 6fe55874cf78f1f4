// SPDX-License-Identifier: Apache-2.0
// The record of one file of recipe flock: the newest token, and dlock's own holders. dlock must not
// write into the file itself. So the record is beside the file, in <directory>/.dlock/<name>/, in
// the format of recipe lease.
//
// The kernel's lock decides who holds. The record supplies the token of each grant, and shows
// people the holder. A holder in the record counts only while the file has the mark of its grant
// (set_mark()).
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
  // Writes a grant into the record, and sets its mark on the open file `locked`, which has the
  // lock.
  Result<Entry> enter(const Request&, int locked);
  // Writes `holder` again, after the record was lost.
  Result<void> enter_again(const LockState::Holder&);
  // Records Lease::ended for this holder, if the record lists the holder.
  Result<void> note_end(const Owner&, std::string_view ended);
  // Removes the holder from the record and drops its mailbox. True: the record listed the holder,
  // and the holder was not evicted.
  Result<bool> leave(const Owner&, Lifeline& mailbox);
  // Evicts the holder with this token, or all holders: notifies each by its mailbox, and makes its
  // grant invalid. An evicted holder still has the kernel's lock, until it releases the lock.
  // `file`: the open file that has the marks. Returns how many holders this call evicted, and how
  // many had been evicted before.
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
  const std::string locked_;  // the path of the file, for messages
  const Duration patience_;
};

// Returns whether the holder was evicted: it was asked to release, and its grant is no longer
// valid.
bool evicted(const LockState::Holder&) noexcept;

}  // namespace dlock::file
