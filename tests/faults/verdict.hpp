// SPDX-License-Identifier: Apache-2.0
// What one cell of the table, a target under a fault, has shown.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "arena.hpp"
#include "history/event.hpp"
#include "nemesis.hpp"

namespace dlock::faults {

inline double ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

struct Row {
  std::string target, fault, what;
  std::string_view not_covered;  // why; empty: exclusion is promised
  double seconds = 0;
  std::size_t grants = 0, jobs = 0, faults = 0, missed = 0, torn = 0;
  std::map<std::string, std::size_t> violations;  // by invariant
  // Of jobs that were seen alive at the same time, by their own notes.
  std::size_t overlaps = 0;
  std::int64_t longest_overlap = 0;  // ns
  std::optional<std::int64_t> least_slack{}, p1_slack{};
  std::uint64_t lost_updates = 0;  // of the counter that compares no tokens
  std::size_t stale_refused = 0, stale_accepted = 0;
  std::optional<std::int64_t> next_p50{}, next_p99{};  // ns from a fault to the next grant
  std::map<std::string, std::size_t> statuses;
  std::vector<std::string>
      broken;  // each promise that was, with the smallest history that shows it
};

struct Evidence {
  std::string target;  // of the row
  const Recipe& recipe;
  Faults faults;
  const Arena& arena;
  std::vector<std::size_t> keys;  // what happened to others is not judged
  bool ordered;                   // I11
  bool queue;                     // each client ran once, and the first one of each key held
  std::vector<std::string> left;  // processes that outlived the cell
  const std::vector<Injection>& injected;
  std::vector<std::string> traces{};  // paths
  std::vector<End> ends{};

  bool has(int key) const;
};

// Everything but seconds, missed and statuses.
Row judge(const Evidence&);

}  // namespace dlock::faults
