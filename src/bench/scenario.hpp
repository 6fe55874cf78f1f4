// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include "store/backend.hpp"

namespace dlock::bench {

enum class Scenario {
  uncontended,  // each client has a key of its own
  handoff,      // all clients want one key
  shared,       // all clients want one key, and nine of ten requests are shared
  limit,        // all clients want a permit; there are half as many permits as clients
  renew,        // each client keeps leases alive, as fast as it can
  crash,        // the time from the kill (-9) of the holder until the waiter is granted the lock
};

struct ScenarioInfo {
  Scenario scenario;
  std::string_view name, about;
};
std::span<const ScenarioInfo> scenarios() noexcept;
std::string_view name_of(Scenario) noexcept;
std::optional<Scenario> find_scenario(std::string_view name) noexcept;

// Returns why the recipe does not support the scenario; empty: it does.
std::string_view cannot(const Traits&, Scenario) noexcept;

// What to measure, the same on every target.
struct Measurement {
  std::vector<Scenario> scenarios;
  unsigned clients = 8;
  Duration duration{5'000'000};
  std::uint64_t ops = 0;  // how many grants to measure instead of a duration; 0: use the duration
  Duration hold_for{};
  // Grants that all clients together request per second. 0: each client requests the next grant
  // when it has released the previous one (closed loop).
  std::uint64_t rate = 0;
  unsigned repeat = 1;
  std::string prefix;   // the prefix of every key in the store
  Duration progress{};  // the interval of progress lines on stderr; 0: no lines
};

// Returns whether all clients contend for one key.
constexpr bool contended(Scenario s) noexcept {
  return s == Scenario::handoff || s == Scenario::shared || s == Scenario::limit;
}
constexpr unsigned permits(unsigned clients) noexcept { return clients > 2 ? clients / 2 : 1; }
inline constexpr unsigned leases_per_client = 16;  // in scenario renew

}  // namespace dlock::bench
