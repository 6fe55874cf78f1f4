// SPDX-License-Identifier: Apache-2.0
#include "history/sweep.hpp"
#include <algorithm>
#include <queue>

namespace dlock::history {
namespace {

std::size_t limit_of(const Attempt& a) {
  return a.invoke && a.invoke->limit ? static_cast<std::size_t>(*a.invoke->limit) : SIZE_MAX;
}

}  // namespace

void sweep(std::vector<Interval> intervals,
           const std::function<void(const Interval&, const Interval&)>& found) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.from < b.from; });
  const auto ends_later = [](const Interval* a, const Interval* b) { return a->until > b->until; };
  std::priority_queue<const Interval*, std::vector<const Interval*>, decltype(ends_later)> open(
      ends_later);
  const Interval* exclusive = nullptr;  // the open exclusive one that ends last
  for (const Interval& next : intervals) {
    while (!open.empty() && open.top()->until <= next.from) open.pop();
    if (exclusive && exclusive->until <= next.from) exclusive = nullptr;
    if (exclusive) found(*exclusive, next);
    else if (!open.empty() && (next.of->exclusive() || open.size() >= limit_of(*next.of)))
      found(*open.top(), next);
    if (next.of->exclusive() && (!exclusive || next.until > exclusive->until)) exclusive = &next;
    open.push(&next);
  }
}

}  // namespace dlock::history
