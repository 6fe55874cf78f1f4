// SPDX-License-Identifier: Apache-2.0
// Where the fake backend keeps its locks: one table for the process, behind one mutex.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>
#include "core/lock_state.hpp"
#include "util/fd.hpp"

namespace dlock::fake {

Micros now_us() noexcept;  // CLOCK_BOOTTIME

struct Entry {
  LockState state;
  std::map<std::uint64_t, Fd> bells;  // ticket -> eventfd: wakes a waiter, alarms a holder
  std::map<std::uint64_t, Fd> lives;  // ticket -> read end of a pipe: end of file proves that the contender is gone

  // Strikes everybody whose pipe has ended.
  void reap(Micros now);
  // After each transition: wakes who may run now, forgets who is gone. `granted`: a new head may have to watch more holders.
  void settle(Micros now, bool granted);
  void ring(std::uint64_t ticket) const;
  // Whose end can change the place of the waiter at `rank`: its predecessor, or for the head every holder. Duplicates.
  std::vector<Fd> watch(std::size_t rank) const;
};

// The mutex is held as long as this lives.
class Table {
 public:
  Table();
  Entry& at(const std::string& store, const std::string& key);          // made when missing
  Entry* find(const std::string& store, const std::string& key) const;  // nullptr: never heard of
  std::vector<std::string> keys(const std::string& store) const;        // in byte order

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace dlock::fake
