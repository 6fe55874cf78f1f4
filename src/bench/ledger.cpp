// SPDX-License-Identifier: Apache-2.0
#include "bench/ledger.hpp"
#include <fmt/format.h>
#include <algorithm>

namespace dlock::bench {

void Ledger::Tally::add(const Tally& other) {
  overlaps += other.overlaps;
  inversions += other.inversions;
  late += other.late;
  max_overtakes = std::max(max_overtakes, other.max_overtakes);
  if (first_violation.empty()) first_violation = other.first_violation;
}

void Ledger::note(std::string what) {
  violated_.store(true, std::memory_order_relaxed);
  if (tally_.first_violation.empty()) tally_.first_violation = std::move(what);
}

void Ledger::requested(unsigned client, Deadline at) {
  const std::lock_guard lock(mutex_);
  clients_[client] = {true, at, newest_, 0};
}

void Ledger::gave_up(unsigned client) {
  const std::lock_guard lock(mutex_);
  clients_[client].waiting = false;
}

void Ledger::check_exclusion(unsigned client, const Lease& lease, Deadline at) {
  std::size_t permits = 0;
  const Hold* against = nullptr;
  for (auto h = holds_.begin(); h != holds_.end();) {
    if (h->client == client || h->deadline < at) {  // an expired lease does not exclude others
      tally_.late += h->client != client;
      h = holds_.erase(h);
      continue;
    }
    const bool same_kind = h->mode == lease.mode && lease.mode != Mode::exclusive;
    const bool same_slot = lease.mode == Mode::permit && h->slot == lease.slot;
    permits += lease.mode == Mode::permit;
    if (!same_kind || same_slot || (lease.mode == Mode::permit && permits >= limit_)) against = &*h;
    ++h;
  }
  if (!against) return;
  ++tally_.overlaps;
  note(fmt::format("key {}: client {} was granted token {} ({}) while client {} held token {} ({})",
                   lease.key.text(), client, lease.token, static_cast<char>(lease.mode),
                   against->client, against->token, static_cast<char>(against->mode)));
}

// Clients that share the key may note their grants in another order than the store granted them. So
// the token of a shared grant need only be above the tokens that were noted before its request, and
// above the tokens of all exclusive grants. An exclusive grant comes when all other holds have
// ended, so its token must be above all other tokens.
void Ledger::check_token(const Client& c, unsigned client, const Lease& lease) {
  const FencingToken floor =
      lease.mode == Mode::exclusive ? newest_ : std::max(c.floor, newest_exclusive_);
  if (lease.token <= floor) {
    ++tally_.inversions;
    note(fmt::format("key {}: client {} was granted token {} after token {}", lease.key.text(),
                     client, lease.token, floor));
  }
  newest_ = std::max(newest_, lease.token);
  if (lease.mode == Mode::exclusive) newest_exclusive_ = std::max(newest_exclusive_, lease.token);
}

void Ledger::count_overtakes(const Client& c) {
  for (Client& other : clients_) {
    if (!other.waiting || other.requested >= c.requested) continue;
    tally_.max_overtakes = std::max(tally_.max_overtakes, ++other.overtaken);
  }
}

std::optional<Nanoseconds> Ledger::granted(unsigned client, const Lease& lease, Deadline at) {
  const std::lock_guard lock(mutex_);
  Client& c = clients_[client];
  check_exclusion(client, lease, at);
  check_token(c, client, lease);
  c.waiting = false;
  count_overtakes(c);
  holds_.push_back({client, lease.mode, lease.token, lease.slot, lease.deadline});

  if (room_.empty()) return std::nullopt;
  const Deadline made = room_.front();
  if (lease.mode != Mode::shared) room_.pop_front();  // all readers can take the same place
  return c.requested < made && at >= made ? std::optional<Nanoseconds>(at - made) : std::nullopt;
}

void Ledger::ending(unsigned client, Deadline at) {
  const std::lock_guard lock(mutex_);
  const auto mine = std::ranges::find(holds_, client, &Hold::client);
  if (mine == holds_.end()) return;
  const Mode mode = mine->mode;
  const bool was_full = mode == Mode::permit ? holds_.size() >= limit_ : holds_.size() == 1;
  holds_.erase(mine);
  if (mode != Mode::permit) room_.clear();
  if (was_full) room_.push_back(at);
}

Ledger::Tally Ledger::tally() const {
  const std::lock_guard lock(mutex_);
  return tally_;
}

double jain(const std::vector<std::uint64_t>& shares) noexcept {
  double sum = 0, squares = 0;
  for (const std::uint64_t x : shares) {
    const double share = static_cast<double>(x);
    sum += share;
    squares += share * share;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1;
}

}  // namespace dlock::bench
