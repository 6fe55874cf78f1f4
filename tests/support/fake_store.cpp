// SPDX-License-Identifier: Apache-2.0
#include "support/fake_store.hpp"
#include <unistd.h>
#include <algorithm>

namespace dlock::fake {
namespace {

constexpr Micros claim = 2'000'000;  // how long an invited waiter may take to claim its turn

struct Shared {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Entry> entries;
};
Shared& shared() {
  // never destroyed: a keeper thread may still be stuck in a fault at exit
  static Shared* const all = new Shared;
  return *all;
}

}  // namespace

Micros now_us() noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

void Entry::settle(Micros now, bool granted) {
  for (const std::uint64_t ticket : state.invite(now, claim)) ring(ticket);
  if (granted && state.holders.size() > 1 && !state.waiters.empty() && !state.waiters[0].invited)
    ring(state.waiters[0].ticket);
  const auto listed = [this](std::uint64_t ticket) {
    const auto same = [ticket](const auto& c) { return c.ticket == ticket; };
    return std::any_of(state.holders.begin(), state.holders.end(), same) ||
           std::any_of(state.waiters.begin(), state.waiters.end(), same);
  };
  std::erase_if(bells, [&](const auto& b) { return !listed(b.first); });
}

void Entry::ring(std::uint64_t ticket) const {
  const auto bell = bells.find(ticket);
  if (bell == bells.end()) return;
  const std::uint64_t one = 1;
  (void)!::write(bell->second.get(), &one, sizeof one);
}

Table::Table() : lock_(shared().mutex) {}

Entry& Table::at(const std::string& store, const std::string& key) {
  return shared().entries[{store, key}];
}

Entry* Table::find(const std::string& store, const std::string& key) const {
  const auto found = shared().entries.find({store, key});
  return found == shared().entries.end() ? nullptr : &found->second;
}

}  // namespace dlock::fake
