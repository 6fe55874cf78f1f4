// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>
#include "bench/histogram.hpp"
#include "core/clock.hpp"
#include "core/lease.hpp"

namespace dlock::bench {

// The record of all holds of one key. The clients of the key write it at the time of each event, so
// it does not rely on the store. A client notes a grant after the reply that grants it, and the end
// of a hold before it requests the release. So two holds that overlap in the ledger did overlap.
// Thread-safe; never waits for a store.
class Ledger {
 public:
  struct Tally {
    // Grants during a conflicting hold that had not passed its deadline.
    std::uint64_t overlaps = 0;
    std::uint64_t inversions = 0;  // grants with a token that is too low
    // Holds that were past their own deadline when the next holder got the lock. They do not count
    // as overlaps.
    std::uint64_t late = 0;
    // The largest number of grants to later requests while one client waited.
    std::uint64_t max_overtakes = 0;
    std::string first_violation;  // the first overlap or inversion, as text

    void add(const Tally&);
  };

  // `limit`: the number of permits.
  explicit Ledger(unsigned clients, unsigned limit = 1) : clients_(clients), limit_(limit) {}

  void requested(unsigned client, Deadline at);
  void gave_up(unsigned client);
  // `at`: the time of the reply. If this client already waited when the end of another hold made
  // room for it, returns the hand-off: the time since that end.
  std::optional<Nanoseconds> granted(unsigned client, const Lease& lease, Deadline at);
  void ending(unsigned client, Deadline at);

  Tally tally() const;
  // Returns whether an overlap or an inversion was noted.
  bool violated() const noexcept { return violated_.load(std::memory_order_relaxed); }

 private:
  struct Client {
    bool waiting = false;
    Deadline requested{};
    FencingToken floor = 0;  // the newest token at the time of its request
    std::uint64_t overtaken = 0;
  };
  struct Hold {
    unsigned client;
    Mode mode;
    FencingToken token;
    unsigned slot;
    Deadline deadline;
  };
  void check_exclusion(unsigned client, const Lease&, Deadline at);
  void check_token(const Client&, unsigned client, const Lease&);
  void count_overtakes(const Client&);
  void note(std::string);

  mutable std::mutex mutex_;
  std::vector<Client> clients_;
  const unsigned limit_;
  std::vector<Hold> holds_;
  std::deque<Deadline> room_;  // the ends of holds whose place no client has taken yet
  FencingToken newest_ = 0, newest_exclusive_ = 0;
  Tally tally_;
  std::atomic<bool> violated_{false};
};

// Jain's index of fairness: (sum x)^2 / (n * sum x^2). It ranges from 1/n (one client has all) to 1
// (all have the same). 1 if all are zero.
double jain(const std::vector<std::uint64_t>& shares) noexcept;

}  // namespace dlock::bench
