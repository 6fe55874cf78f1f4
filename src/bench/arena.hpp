// SPDX-License-Identifier: Apache-2.0
// Shared by the clients of one measurement: what to do, when, and the counts.
#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>
#include "bench/figures.hpp"
#include "bench/ledger.hpp"
#include "bench/plan.hpp"
#include "util/fd.hpp"

namespace dlock::bench {

// connecting: each client connects; warming and measuring: it works; over: it ends.
enum class Phase : std::uint8_t { connecting, warming, measuring, over };

class Arena {
 public:
  Arena(const Plan&, const Target&, Scenario);

  const Plan& plan;
  const Target& target;
  const Scenario scenario;

  // One for each contended key; in scenarios without contention each client has its own.
  Ledger& ledger(unsigned client) { return *ledgers_[contended(scenario) ? 0 : client]; }
  // A client's number in its ledger.
  unsigned number(unsigned client) const noexcept { return contended(scenario) ? client : 0; }

  Phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
  void enter(Phase);
  void wait_while_connecting() const { phase_.wait(Phase::connecting); }
  bool over() const noexcept { return phase() == Phase::over; }
  // of measuring
  Deadline start() const noexcept {
    return Deadline{Nanoseconds{start_.load(std::memory_order_relaxed)}};
  }
  // of warming
  Deadline begin() const noexcept {
    return Deadline{Nanoseconds{begin_.load(std::memory_order_relaxed)}};
  }

  int stop_fd() const noexcept { return stop_.get(); }    // readable once it is over
  int event_fd() const noexcept { return event_.get(); }  // readable: check ready() and finished()
  // False: --ops operations have begun. `counts`: this one is measured; with --ops those of the
  // warm-up are not.
  bool take_op(bool& counts);
  bool ops_are_over() const noexcept {
    return plan.ops > 0 && ops_left_.load(std::memory_order_relaxed) <= 0;
  }

  // What clients report.
  void ready();
  void left();               // no more from this client
  void fatal(const Error&);  // no client can continue
  void error(const Error&);  // one operation failed
  void counted(Latency, Nanoseconds);
  void grant(unsigned client);
  void waited(Nanoseconds);
  void add(const Counters& from, const Counters& to);
  void violation();  // the ledger has seen an overlap or an inversion: stops the measurement

  // For the watching thread.
  unsigned ready_count() const noexcept { return ready_.load(); }
  bool finished() const noexcept { return finished_.load(); }
  std::optional<Error> fatal_error() const;
  std::uint64_t grants_so_far() const noexcept { return grants_.load(std::memory_order_relaxed); }
  std::uint64_t errors_so_far() const noexcept { return errors_.load(std::memory_order_relaxed); }
  bool violated() const noexcept { return violated_.load(); }
  Ledger::Tally tally() const;

  std::array<Histogram, latencies> latency;
  std::vector<std::uint64_t> per_client;
  std::shared_ptr<Timeline> timeline;  // of the hand-offs; of the acquisitions where there are none
  Nanoseconds longest_wait() const noexcept { return Nanoseconds{longest_wait_.load()}; }
  Counters used() const noexcept { return {requests_.load(), wakeups_.load()}; }
  std::string first_error() const;

 private:
  void tell() const noexcept;

  std::vector<std::unique_ptr<Ledger>> ledgers_;
  Fd stop_, event_;
  std::atomic<Phase> phase_{Phase::connecting};
  std::atomic<std::int64_t> start_{0}, begin_{0}, ops_left_{0}, longest_wait_{0};
  std::atomic<unsigned> ready_{0}, left_{0};
  std::atomic<bool> finished_{false}, violated_{false};
  std::atomic<std::uint64_t> grants_{0}, errors_{0}, requests_{0}, wakeups_{0};
  mutable std::mutex mutex_;
  std::optional<Error> fatal_, first_error_;
};

}  // namespace dlock::bench
