// SPDX-License-Identifier: Apache-2.0
// The locks of the fake backend: one table for the process, behind one mutex.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include "core/lock_state.hpp"
#include "store/backend.hpp"
#include "util/fd.hpp"

namespace dlock::fake {

Micros now_us() noexcept;  // CLOCK_BOOTTIME

struct Entry {
  LockState state;
  std::map<std::uint64_t, Fd> bells;  // ticket -> eventfd: wakes a waiter
  // owners after a release or cancel: they must not come back (lease.hpp)
  std::set<Owner> spent;
  std::optional<RunStart> start;  // noted

  // After each transition: wakes waiters that may run now, drops dead ones. `granted`: a new head
  // may have to watch more holders.
  void settle(Micros now, bool granted);
  void ring(std::uint64_t ticket) const;
};

// The mutex is held as long as this lives.
class Table {
 public:
  Table();
  Entry& at(const std::string& store, const std::string& key);          // created when missing
  Entry* find(const std::string& store, const std::string& key) const;  // nullptr: unknown

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace dlock::fake
