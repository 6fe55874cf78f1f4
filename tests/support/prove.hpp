// SPDX-License-Identifier: Apache-2.0
// Shared by the programs that do harm to real servers at large.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "core/clock.hpp"
#include "core/key.hpp"

namespace dlock::prove {

inline bool failed = false;
inline bool full = false;  // --full: the counts of scripts/prove

inline void must(bool so, const std::string& what) {
  if (so) return;
  failed = true;
  fmt::print("NOT MET: {}\n", what);
}

inline double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

template <class T>
T quantile(std::vector<T> v, double q) {
  if (v.empty()) return {};
  const auto at = v.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(v.size() - 1));
  std::nth_element(v.begin(), at, v.end());
  return *at;
}

inline Key key(std::string_view text) { return *Key::parse(text); }

// `PROGRAM [--full] [PART...]`: its exit status. No part: all.
inline int run_parts(int argc, char** argv,
                     const std::vector<std::pair<std::string_view, std::function<void()>>>& parts) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::vector<std::string_view> words{argv + 1, argv + argc};
  full = std::erase(words, "--full") > 0;
  const auto named = [&](std::string_view part) {
    return words.empty() || std::find(words.begin(), words.end(), part) != words.end();
  };
  for (const std::string_view word : words)
    if (std::none_of(parts.begin(), parts.end(), [&](auto& p) { return p.first == word; }))
      return fmt::print(stderr, "no part '{}'\n", word), 64;
  try {
    for (const auto& [name, run] : parts)
      if (named(name)) run();
  } catch (const std::exception& e) { must(false, e.what()); }
  return failed ? 1 : 0;
}

}  // namespace dlock::prove
