// SPDX-License-Identifier: Apache-2.0
// The file `state` in the directory of one key: a KeyRecord in two slots, changed under a short
// flock(2).
//
// A transition is one pwrite of the slot that is not in force. The newest slot with a valid
// checksum is in force. So a process that is killed at any moment leaves the state before or after
// its transition. There is no fsync: after a power cut the state may be older, and the wall clock
// keeps the tokens rising. The tail of a long queue (tail.hpp) comes after the slots.
#pragma once
#include <sys/types.h>
#include <cstdint>
#include <string>
#include <string_view>
#include "file/directory.hpp"
#include "file/lease/lifeline.hpp"
#include "file/lease/state_codec.hpp"
#include "file/lease/tail.hpp"

namespace dlock::file {

// The longest patience of a single try (-n).
inline constexpr Duration one_try{1'000'000};
// If the state was locked for this long, messages name the process that locks it.
inline constexpr Duration named_after{200'000};

// what lock() may create: nothing, the file in an existing directory, or both
enum class Make { nothing, state, all };

// The slots are at 0 and 1 MiB, and the tail follows them. The file is sparse: unused space costs
// nothing.
inline constexpr off_t slot_size = 1 << 20;
inline constexpr off_t tail_at = 2 * slot_size;

// pread(2) and pwrite(2), repeated after a signal.
ssize_t pread_all(int fd, char* to, std::size_t size, off_t at) noexcept;
ssize_t pwrite_all(int fd, std::string_view text, off_t at) noexcept;

// Checks whether a file may grow to this size (ulimit -f).
Result<void> fits_under_limit(const std::string& path, std::uint64_t needed);

class StateFile {
 public:
  StateFile(const Directory& where, std::string name, const QueueLimits& limits = {})
      : where_(where),
        limits_(limits),
        name_(std::move(name)),
        dir_path_(where.path_of(name_)),
        path_(dir_path_ + "/state") {}
  ~StateFile() { unlock(); }
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  enum class Locking { locked, absent, interrupted };
  // Takes the lock within `patience`. Errc::unavailable: its owner is frozen for longer. Locked:
  // the path leads to the locked file. A readable `interrupt_fd` ends the wait; -1: none.
  Result<Locking> lock(Make, Duration patience, int interrupt_fd);
  // Returns, for people, why the lock was not taken. `since`: " for 5000 ms" or empty. `name`: name
  // the process, from the kernel's list of locks.
  std::string locked_by_another(std::string_view since, bool name) const;
  void unlock() noexcept;

  // The record in force. fresh: there is no record yet, or it was deleted. Errc::protocol: it
  // cannot be read safely. Call it only while locked.
  struct Loaded {
    KeyRecord record;
    bool fresh = false;
  };
  Result<Loaded> load();
  // Adds the waiters of the tail to those of the slot. It may be called again.
  Result<void> load_tail(KeyRecord&);
  // Returns the ticket of the tail's last waiter, if a new waiter may join as record.joins after a
  // tail that is not loaded. It may, because it must wait for one of the first waiters. Nothing:
  // call load_tail() first.
  std::optional<std::uint64_t> last_in_tail(const KeyRecord&, Micros now) const;
  // Does LockState::invite() for as many waiters of the tail as necessary, and then for
  // record.joins. Afterwards at least the first waiter is known.
  Result<std::vector<std::uint64_t>> invite(KeyRecord&, Micros now, Micros claim);
  // Reads the record of the last load() again.
  Result<Loaded> reload();

  // Replaces the record. It writes nothing if nothing has changed. Call it only while locked and
  // loaded. If waiters were added to the state, all waiters must be loaded.
  Result<void> commit(const KeyRecord&);
  // Returns whether the file is still in its place. If it was deleted, replaced or renamed, the
  // commit does not count. Costs one system call.
  bool still_linked() const noexcept;

  // Reads the record in force without the lock. nullopt: it is absent or still empty. It creates
  // nothing.
  enum class Depth { holders, waiters };
  Result<std::optional<KeyRecord>> peek(Depth);
  // Checks without the lock whether an invited waiter has let its time pass, or the file is no
  // longer in its place. It may return true too often. A wrong false lasts only for a short time.
  bool needs_check(Micros now) const noexcept;
  // Returns the number of the newest change, read without the lock; 0: unknown.
  std::uint64_t newest_change() const noexcept;

  // Valid until the next call that may open something. dir is -1 before the first open.
  LifelineDir place() const noexcept {
    return {dir_.get(), epoch_, access_, dir_path_, device_, file_ ? inode_ : 0};
  }
  // Opens the directory, whatever is in it. Nothing: it does not exist.
  Result<Opened> open_dir() const { return where_.open_key(name_, false); }
  const std::string& path() const noexcept { return path_; }
  const std::string& dir_path() const noexcept { return dir_path_; }

 private:
  Result<bool> open(Make);
  Result<bool> open_once(Make, bool& vanished);
  Result<bool> in_place() const;
  void close() noexcept;
  struct Slot {
    Header header;
    std::string_view text;  // its first first_read bytes
  };
  Slot read_slot(int slot);
  bool read_body(int slot, const Slot&);
  Result<Loaded> newest(bool& torn);
  std::optional<KeyRecord> decoded();
  Result<void> tolerate_damage() const;
  Result<bool> load_more(KeyRecord&);
  bool read_tail(KeyRecord&, std::size_t most_bytes, bool all);
  Written planned(const KeyRecord&, bool joined) const;
  Result<void> write_tail(const Written&) const;
  Result<void> reserve(const KeyRecord&, bool tail) const;
  Header newest_header() const noexcept;

  const Directory& where_;
  const QueueLimits limits_;
  const std::string name_, dir_path_, path_;
  Access access_;
  Fd dir_, file_;
  struct stat dir_stat_ {};  // of dir_
  dev_t device_ = 0;
  ino_t inode_ = 0;
  unsigned epoch_ = 0;
  bool locked_ = false;
  std::uint64_t seq_ = 0;                // of the slot in force; 0: none
  std::string page_[2], body_, buffer_;  // body_: the body of the slot in force
  Tail tail_;                            // of the slot in force
  std::uint64_t next_ticket_ = 1;        // in the slot in force
  std::vector<TailLine> loaded_;         // of load_tail
};

// Returns whether a file was last changed after this machine started. Older damage comes from a
// crash of the machine, which no holder has survived.
bool changed_in_this_boot(const timespec& changed, Micros wall_now, Micros boottime_now) noexcept;

Micros boottime_us() noexcept;
const std::string& boot_id();

}  // namespace dlock::file
