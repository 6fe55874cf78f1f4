// SPDX-License-Identifier: Apache-2.0
#include "cli/options/nearest.hpp"
#include <algorithm>
#include <array>
#include <cstddef>

namespace dlock::cli {
namespace {

constexpr std::size_t longest_name = 32;  // no name is longer

// Insertions, deletions, replacements and transpositions that turn `a` into `b` (optimal string
// alignment).
std::size_t mistakes(std::string_view a, std::string_view b) {
  std::array<std::array<std::size_t, longest_name + 1>, longest_name + 1> d{};
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> names) {
  if (wrong.size() < 2 || wrong.size() > longest_name) return {};
  const auto begun = [&](std::string_view name) { return name.starts_with(wrong); };
  if (std::count_if(names.begin(), names.end(), begun) == 1)
    return *std::find_if(names.begin(), names.end(), begun);

  std::string_view best;
  // short words are similar to everything
  std::size_t fewest = std::min<std::size_t>(3, (wrong.size() + 1) / 2);
  for (const std::string_view name : names) {
    if (name.size() > longest_name) continue;
    if (const std::size_t n = mistakes(wrong, name); n < fewest) {
      fewest = n;
      best = name;
    }
  }
  return best;
}

}  // namespace dlock::cli
