// SPDX-License-Identifier: Apache-2.0
// What the clients of one measurement share: the task, its phases and the counts.
#pragma once
#include <sys/eventfd.h>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>
#include "bench/bench.hpp"
#include "bench/figures.hpp"
#include "bench/ledger.hpp"
#include "util/fd.hpp"

namespace dlock::bench {

// connecting: each client connects. warming and measuring: the clients work. over: they end.
enum class Phase : std::uint8_t { connecting, warming, measuring, over };

class Arena {
 public:
  Arena(const Plan&, const Target&, Scenario);

  const Plan& plan;
  const Target& target;
  const Scenario scenario;

  // All clients of a contended key share one ledger. In scenarios without contention each client
  // has its own.
  Ledger& ledger(unsigned client) { return *ledgers_[contended(scenario) ? 0 : client]; }
  // A client's number in its ledger.
  unsigned number(unsigned client) const noexcept { return contended(scenario) ? client : 0; }

  Phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
  void enter(Phase);
  void wait_while_connecting() const { phase_.wait(Phase::connecting); }
  bool over() const noexcept { return phase() == Phase::over; }
  // when measuring begins
  Deadline start() const noexcept {
    return Deadline{Nanoseconds{start_.load(std::memory_order_relaxed)}};
  }
  // when the warm-up begins
  Deadline begin() const noexcept {
    return Deadline{Nanoseconds{begin_.load(std::memory_order_relaxed)}};
  }

  int stop_fd() const noexcept { return stop_.get(); }  // readable from Phase::over on
  // Becomes readable when all_ready(), all_left(), fatal_error() or `violated` changes.
  int event_fd() const noexcept { return event_.get(); }
  // Returns false if all operations of --ops have begun: then do not begin another. `counts`:
  // whether this operation is measured. With --ops, operations of the warm-up do not count.
  bool begin_op(bool& counts);
  bool ops_are_over() const noexcept {
    return plan.ops > 0 && ops_left_.load(std::memory_order_relaxed) <= 0;
  }

  // Reports of the clients.
  void report_ready();
  void report_left();        // this client has ended
  void report_fatal(Error);  // no client can continue
  void report_error(Error);  // one operation failed
  // The ledger has seen an overlap or an inversion (Ledger::Tally). This ends the measurement.
  void report_violation();
  void count(Latency, Nanoseconds);
  void count_grant(unsigned client);
  void count_wait(Nanoseconds);
  void count_use(const Counters& from, const Counters& to);

  // The watching thread calls the following functions.
  bool all_ready() const noexcept { return ready == plan.clients; }
  bool all_left() const noexcept { return left == plan.clients; }
  std::optional<Error> fatal_error() const;
  Ledger::Tally tally() const;
  void add_to(Figures&, double seconds) const;  // call it after all clients have left

  std::atomic<unsigned> ready{0}, left{0};  // how many clients are ready, and how many have left
  std::atomic<bool> violated{false};
  std::atomic<std::uint64_t> grants{0}, errors{0};

 private:
  void wake() const noexcept { ::eventfd_write(event_.get(), 1); }

  std::vector<std::unique_ptr<Ledger>> ledgers_;
  Fd stop_, event_;
  std::atomic<Phase> phase_{Phase::connecting};
  std::atomic<std::int64_t> start_{0}, begin_{0}, ops_left_{0}, longest_wait_{0};
  std::atomic<std::uint64_t> requests_{0}, wakeups_{0};
  std::array<Histogram, latencies> latency_;
  std::vector<std::uint64_t> per_client_;
  // Hand-offs in contended scenarios, renewals in scenario renew, otherwise acquisitions.
  std::shared_ptr<Timeline> timeline_ = std::make_shared<Timeline>();
  mutable std::mutex mutex_;
  std::optional<Error> fatal_, first_error_;
};

}  // namespace dlock::bench
