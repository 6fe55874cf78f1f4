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

// What all clients of one key write down, each at once: the witness that knows what the store does not tell. A client notes a grant after the
// answer came and the end before it asks to release, so two holds that overlap here did overlap. Thread-safe; nothing here waits
// for a store.
class Ledger {
 public:
  struct Tally {
    std::uint64_t overlaps = 0;       // grants while another hold that excludes it went on, its own deadline not over
    std::uint64_t inversions = 0;     // tokens not greater than those they must be greater than
    std::uint64_t late = 0;           // holds that went on past their own deadline, seen by the next holder: no overlap
    std::uint64_t max_overtakes = 0;  // most grants to clients that had asked later, while one client waited
    std::string first;                // the first overlap or inversion, in words
  };

  // `limit`: how many permits there are.
  explicit Ledger(unsigned clients, unsigned limit = 1) : clients_(clients), limit_(limit) {}

  void asked(unsigned client, Deadline at);
  void gave_up(unsigned client);
  // `at`: when the answer came. Answers the hand-off, the time since the end that made room for this grant, if this client was waiting then.
  std::optional<Nanoseconds> granted(unsigned client, const Lease& lease, Deadline at);
  void ending(unsigned client, Deadline at);

  Tally tally() const;
  bool violated() const noexcept { return violated_.load(std::memory_order_relaxed); }  // an overlap or an inversion was noted

 private:
  struct Client {
    bool waiting = false;
    Deadline asked{};
    FencingToken floor = 0;  // the newest token when it asked
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
  std::deque<Deadline> room_;  // ends that made room which nobody has taken yet
  FencingToken newest_ = 0, newest_exclusive_ = 0;
  Tally tally_;
  std::atomic<bool> violated_{false};
};

// Jain's index of fairness: (sum x)^2 / (n * sum x^2), from 1/n (one has all) to 1 (all have the same). Nobody has anything: 1.
double jain(const std::vector<std::uint64_t>& shares) noexcept;

}  // namespace dlock::bench
