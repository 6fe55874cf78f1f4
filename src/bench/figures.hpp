// SPDX-License-Identifier: Apache-2.0
// The results: one Figures for each target and scenario, over all repeats.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "bench/histogram.hpp"
#include "bench/host.hpp"
#include "bench/ledger.hpp"
#include "bench/scenario.hpp"

namespace dlock::bench {

enum class Latency : std::uint8_t { acquire, release, handoff, renew, takeover };
inline constexpr std::array<std::string_view, 5> latency_names{"acquire", "release", "handoff",
                                                               "renew", "takeover"};
inline constexpr std::size_t latencies = latency_names.size();

struct Quantile {
  std::string_view name;
  std::uint32_t per_100000;
};
inline constexpr std::array<Quantile, 5> quantiles{
    {{"p50", 50'000}, {"p90", 90'000}, {"p99", 99'000}, {"p999", 99'900}, {"max", 100'000}}};

// Returns the median. For an even number of values it is the mean of the two in the middle; without
// values it is 0.
double median(std::vector<double> values) noexcept;

struct Figures : Ledger::Tally {
  std::string backend, recipe;
  Scenario scenario{};
  unsigned clients = 0;
  std::string skipped;  // why nothing was measured

  double seconds = 0;
  std::uint64_t grants = 0;    // in scenario renew, the number of renewals
  std::vector<double> rounds;  // grants_per_s of each repeat
  std::array<Histogram, latencies> latency;
  Nanoseconds rtt{};
  std::vector<std::uint64_t> per_client;
  std::uint64_t requests = 0, wakeups = 0, errors = 0, starved = 0;
  bool wakes = false;          // false: waiters poll, so wake-ups mean nothing
  Nanoseconds longest_wait{};  // includes clients that still waited at the end
  std::string first_error;
  Duration renew_every{};  // scenario renew: the renewal interval of one lease
  std::shared_ptr<Timeline> timeline = std::make_shared<Timeline>();

  const Histogram& of(Latency l) const noexcept { return latency[static_cast<std::size_t>(l)]; }
  double grants_per_s() const noexcept { return median(rounds); }
  double fairness() const noexcept { return jain(per_client); }
  double commands_per_grant() const noexcept {
    return grants ? static_cast<double>(requests) / static_cast<double>(grants) : 0;
  }
  std::optional<double> wakeups_per_grant() const noexcept;
  // Scenario renew: returns how many leases this number of clients can keep alive.
  std::optional<double> leases_kept() const noexcept;
  bool violated() const noexcept { return overlaps > 0 || inversions > 0; }
  bool no_samples() const noexcept;  // returns whether a measurement was made, but has no sample
};

struct Report {
  std::int64_t began = 0;  // microseconds since 1970
  Host host;
  std::vector<Figures> runs;  // by scenario, then by target, both in the order of the Plan
  // Each backend with the versions of its servers, if the servers report them.
  std::vector<std::string> servers;
  std::vector<std::string> notes;
  std::vector<std::string> left;  // messages about keys that could not be removed
  int signal = 0;                 // the signal that ended the benchmark early; 0: none
  bool violated() const noexcept;
  bool without_samples() const noexcept;  // whether a run has no samples
};

// "41 210", "590", "3.40": three digits or more, with spaces between thousands.
std::string grouped(double number);
std::string short_time(Nanoseconds n);  // "92.0µs", "1.21ms", "4.50s": three digits
std::string ratio(double r);            // "4.2", "13", "1.0"

constexpr double in_us(Nanoseconds n) noexcept { return static_cast<double>(n.count()) / 1000; }

}  // namespace dlock::bench
