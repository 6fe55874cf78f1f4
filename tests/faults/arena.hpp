// SPDX-License-Identifier: Apache-2.0
// What the jobs of one cell share, mapped from a file: per key a resource that compares fencing
// tokens and a counter that does not, and for each job the times at which it was seen alive. It
// survives jobs that are killed at any instruction.
#pragma once
#include <pthread.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace dlock::faults {

std::int64_t boot_ns() noexcept;  // CLOCK_BOOTTIME

struct Slot {  // of one job; times are nanoseconds of CLOCK_BOOTTIME
  std::atomic<std::uint64_t> token;
  std::atomic<std::int64_t> start, last;    // last: it ran then; about one in 1 or 5 ms
  std::atomic<std::int64_t> asleep, awake;  // the longest pause of more than 100 ms; 0: none
  std::atomic<std::int32_t> pid, guard, key;
  std::atomic<bool> holds;   // it stays until told to end
  std::atomic<bool> shared;  // it may run beside others of its kind, and writes nothing
};

struct Write {  // one attempt to write to a resource
  std::int64_t t;
  std::uint64_t token;
  std::int64_t value;  // of the fenced counter after it; -1: a write that does not count
  std::int32_t key;
  bool accepted;
  std::atomic<bool> complete;
};

class Resource {
 public:
  void init();
  // Accepted only with a token that is not below the highest seen; a resource server would do this.
  // counts: adds one to what the job read when it began.
  void write(std::uint64_t token, bool counts, std::int64_t read, Write& log);
  std::int64_t fenced() const noexcept { return fenced_; }

  // The counter that compares nothing: read at the job's begin, written one higher at its end.
  std::uint32_t unfenced() const noexcept { return static_cast<std::uint32_t>(unfenced_); }
  void write_unfenced(std::uint32_t value) noexcept;
  // Updates that were written and are not in the counter.
  std::uint64_t lost_updates() const noexcept { return (unfenced_ >> 32U) - unfenced(); }

  std::atomic<bool> hold;  // the next job stays until this is false

 private:
  pthread_mutex_t mutex_;  // robust: the next one goes on where a killed job was
  std::uint64_t highest_;
  std::atomic<std::int64_t> fenced_;
  std::atomic<std::uint64_t> unfenced_;  // the number of updates << 32 | the counter
};

struct Arena {
  static constexpr std::size_t most_keys = 32, most_slots = 1U << 19U, most_writes = 1U << 22U;
  Resource resources[most_keys];
  std::atomic<std::uint32_t> slots_used, writes_used;
  Slot slots[most_slots];
  Write writes[most_writes];

  // Ends the program when that fails. create: a new file, all zero.
  static Arena& map(const std::string& path, bool create);
  static void unmap(Arena&);
  Slot& take_slot();
  Write& take_write();
};

}  // namespace dlock::faults
