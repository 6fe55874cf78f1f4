// SPDX-License-Identifier: Apache-2.0
// What must be true of every history of locking. Each check takes O(n log n).
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "history/attempts.hpp"

namespace dlock::history {

struct Violation {
  std::string_view invariant;  // "I1"
  std::string sentence;
  std::vector<const Event*> excerpt;  // the smallest set of events that shows it, by time
};

struct Bounds {
  // ns from a release to the next grant; nothing: I6 is not checked
  std::optional<std::int64_t> hand_over{};
  // ns from the deadline of a holder that vanished to the next grant
  std::optional<std::int64_t> takeover{};
  bool in_order = true;  // I11 is promised
  // I7: ns from the last fault's end to the end of every acquire
  std::int64_t heal = 30'000'000'000;
};

struct Figures {
  std::size_t grants = 0, jobs = 0, faults = 0;
  std::optional<std::int64_t> least_slack{}, p1_slack{};  // I3, of jobs that dlock ended, ns
  // ns that jobs overlapped where only tokens protect
  std::int64_t excused_overlap = 0;
};

struct Verdict {
  std::vector<Violation> violations;
  Figures figures;
};

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 11> invariants{
    {{"I1", "grants of one key do not overlap while they are valid"},
     {"I2", "jobs of one key do not overlap"},
     {"I3", "a job is dead before its deadline"},
     {"I4", "tokens are distinct and rise in real time"},
     {"I5", "the guarded resource never goes back, and no update is lost"},
     {"I6", "a waiter gets the lock in time"},
     {"I7", "every acquire ends, and nothing is left behind"},
     {"I8", "a release ends only the client's own grant"},
     {"I9", "the exit status agrees with what happened"},
     {"I10", "no job starts after an acquire of unknown or failed outcome"},
     {"I11", "grants come in the order of the queue"}}};

Verdict check(const History&, const Bounds&);

}  // namespace dlock::history
