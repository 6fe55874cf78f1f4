// SPDX-License-Identifier: Apache-2.0
#include "support/fake_store.hpp"
#include <fcntl.h>
#include <poll.h>
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

bool ended(const Fd& life) {
  pollfd p{life.get(), 0, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
}

}  // namespace

Micros now_us() noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

void Entry::reap(Micros now) {
  for (auto at = lives.begin(); at != lives.end();) {
    if (!ended(at->second)) {
      ++at;
      continue;
    }
    state.vanish(at->first, now);
    bells.erase(at->first);
    at = lives.erase(at);
  }
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
  std::erase_if(lives, [&](const auto& l) { return !listed(l.first); });
}

void Entry::ring(std::uint64_t ticket) const {
  const auto bell = bells.find(ticket);
  if (bell == bells.end()) return;
  const std::uint64_t one = 1;
  (void)!::write(bell->second.get(), &one, sizeof one);
}

std::vector<Fd> Entry::watch(std::size_t rank) const {
  std::vector<Fd> fds;
  const auto add = [&](std::uint64_t ticket) {
    if (const auto life = lives.find(ticket); life != lives.end())
      fds.emplace_back(::fcntl(life->second.get(), F_DUPFD_CLOEXEC, 3));
  };
  if (rank > 0 && rank < state.waiters.size()) add(state.waiters[rank - 1].ticket);
  if (rank == 0)
    std::for_each(state.holders.begin(), state.holders.end(),
                  [&](const auto& h) { add(h.ticket); });
  return fds;
}

Table::Table() : lock_(shared().mutex) {}

Entry& Table::at(const std::string& store, const std::string& key) {
  return shared().entries[{store, key}];
}

Entry* Table::find(const std::string& store, const std::string& key) const {
  const auto found = shared().entries.find({store, key});
  return found == shared().entries.end() ? nullptr : &found->second;
}

std::vector<std::string> Table::keys(const std::string& store) const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : shared().entries)
    if (name.first == store) all.push_back(name.second);
  return all;
}

}  // namespace dlock::fake
