// SPDX-License-Identifier: Apache-2.0
// The file `state` in the directory of one key: a KeyRecord in two slots, changed under a short
// flock(2).
//
// The newest slot with a valid checksum is in force. A transition is one pwrite of the other slot.
// So whenever a process is killed, the state in force is the one before its transition or the one
// after it. There is no fsync, so after a power cut the state may be older. Tokens rise all the
// same, because a new token is at least the time of the wall clock. The tail of a long queue
// (tail.hpp) comes after the slots.
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

// The longest time that a single try (-n) waits for the lock of the state.
inline constexpr Duration one_try{1'000'000};
// If the state was locked for this long, messages name the process that locks it.
inline constexpr Duration named_after{200'000};

// what lock() may create: nothing, the file in an existing directory, or the file and its directory
enum class Make { nothing, state, all };

// The slots are at 0 and 1 MiB, and the tail follows them. The file is sparse: unused space costs
// nothing.
inline constexpr off_t slot_size = 1 << 20;
inline constexpr off_t tail_at = 2 * slot_size;

// pread(2) and pwrite(2), repeated after a signal.
ssize_t pread_all(int fd, char* to, std::size_t size, off_t at) noexcept;
ssize_t pwrite_all(int fd, std::string_view text, off_t at) noexcept;

// Checks whether this process may let a file grow to `needed` bytes (ulimit -f).
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
  // Takes the lock. Errc::unavailable: another process kept the lock for longer than `patience`.
  // `locked`: the path leads to the locked file. `absent`: the file does not exist, and Make does
  // not allow to create it. `interrupted`: `interrupt_fd` has become readable (-1: no such
  // descriptor).
  Result<Locking> lock(Make, Duration patience, int interrupt_fd);
  // Returns a message that says why the lock was not taken. `since`: " for 5000 ms" or empty. If
  // `name` is true, the message names the process that has the lock, from the kernel's list of
  // locks.
  std::string locked_by_another(std::string_view since, bool name) const;
  void unlock() noexcept;

  // Returns the record in force. `fresh`: there is no record yet, or it was deleted, or it was
  // damaged in an earlier boot. Errc::protocol: the record cannot be read safely. Call load() only
  // while locked.
  struct Loaded {
    KeyRecord record;
    bool fresh = false;
  };
  Result<Loaded> load();
  // Adds the waiters of the tail to those of the slot. It may be called more than once.
  Result<void> load_tail(KeyRecord&);
  // Returns the ticket of the tail's last waiter, if a new waiter may join behind that waiter
  // although the tail is not loaded. This is possible only if one of the first waiters must wait,
  // because then the new waiter must wait, too. The new waiter joins as KeyRecord::joins. nullopt:
  // call load_tail() first.
  std::optional<std::uint64_t> last_in_tail(const KeyRecord&, Micros now) const;
  // Calls LockState::invite(). If that invites every waiter of the state, adds the next waiters
  // (from the tail, and last of all KeyRecord::joins) and calls LockState::invite() again, until a
  // waiter is not invited or there are no more waiters. So afterwards the state has at least the
  // first waiter of the queue.
  Result<std::vector<std::uint64_t>> invite(KeyRecord&, Micros now, Micros claim);
  // Returns the record of the last load() again, without reading the file.
  Result<Loaded> reload();

  // Replaces the record in force. Writes nothing if nothing has changed. Call it only while locked,
  // after load(). If a waiter was added to the state itself, and not as KeyRecord::joins,
  // load_tail() must have been called.
  Result<void> commit(const KeyRecord&);
  // Returns whether the file is still in its place. If it was deleted, replaced or renamed, the
  // last commit() does not count. Costs one system call.
  bool still_linked() const noexcept;

  // Returns the record in force, read without the lock. nullopt: the file does not exist or is
  // still empty. peek() creates nothing. Depth::waiters: reads the tail, too.
  enum class Depth { holders, waiters };
  Result<std::optional<KeyRecord>> peek(Depth);
  // Returns, without the lock, whether an invited waiter has missed its time to claim, or the file
  // is no longer in its place. True may be wrong. If false is wrong, a call a short time later
  // returns true.
  bool needs_check(Micros now) const noexcept;
  // Returns the number of the newest change, read without the lock; 0: unknown.
  std::uint64_t newest_change() const noexcept;

  // The result is valid until the next call that may open the file. Before the first such call,
  // LifelineDir::dir is -1.
  LifelineDir place() const noexcept {
    return {dir_.get(), epoch_, access_, dir_path_, device_, file_ ? inode_ : 0};
  }
  // Opens the directory, even if it has no state file. Opened::dir is -1: the directory does not
  // exist.
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
    std::string_view text;  // the beginning of the slot (first_read bytes)
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
  struct stat dir_stat_ {};  // fstat(2) of dir_
  dev_t device_ = 0;
  ino_t inode_ = 0;
  unsigned epoch_ = 0;
  bool locked_ = false;
  std::uint64_t seq_ = 0;                // the number of the change in force; 0: none
  std::string page_[2], body_, buffer_;  // body_: the body of the slot in force
  Tail tail_;                            // the tail of the slot in force
  std::uint64_t next_ticket_ = 1;        // the next ticket of the state in force
  std::vector<TailLine> loaded_;         // the lines that load_tail() has read
};

// Returns whether a file was last changed after this machine started. If a damaged file is older, a
// crash of the machine has damaged it, and no holder has survived that crash.
bool changed_in_this_boot(const timespec& changed, Micros wall_now, Micros boottime_now) noexcept;

Micros boottime_us() noexcept;
const std::string& boot_id();

}  // namespace dlock::file
