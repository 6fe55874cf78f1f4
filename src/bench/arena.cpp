// SPDX-License-Identifier: Apache-2.0
#include "bench/arena.hpp"
#include <sys/eventfd.h>

namespace dlock::bench {

Arena::Arena(const Plan& p, const Target& t, Scenario s)
    : plan(p),
      target(t),
      scenario(s),
      per_client(p.clients),
      timeline(std::make_shared<Timeline>()),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      ops_left_(static_cast<std::int64_t>(p.ops)) {
  if (contended(s))
    ledgers_.push_back(
        std::make_unique<Ledger>(p.clients, s == Scenario::limit ? permits(p.clients) : 1));
  else
    for (unsigned i = 0; i < p.clients; ++i) ledgers_.push_back(std::make_unique<Ledger>(1));
}

void Arena::enter(Phase p) {
  const std::int64_t now = Clock::now().time_since_epoch().count();
  if (p == Phase::warming) begin_ = now;
  if (p == Phase::measuring) start_ = now;
  phase_.store(p, std::memory_order_release);
  phase_.notify_all();
  if (p == Phase::over) ::eventfd_write(stop_.get(), 1);
}

void Arena::tell() const noexcept { ::eventfd_write(event_.get(), 1); }

bool Arena::take_op(bool& counts) {
  const bool measured = phase() == Phase::measuring;
  counts = plan.ops == 0 || measured;
  if (plan.ops == 0 || !measured) return true;
  return ops_left_.fetch_sub(1, std::memory_order_relaxed) > 0;
}

void Arena::ready() {
  if (ready_.fetch_add(1) + 1 == plan.clients) tell();
}

void Arena::left() {
  if (left_.fetch_add(1) + 1 < plan.clients) return;
  finished_ = true;
  tell();
}

void Arena::fatal(const Error& e) {
  {
    const std::lock_guard lock(mutex_);
    if (!fatal_) fatal_ = e;
  }
  tell();
}

void Arena::error(const Error& e) {
  if (errors_.fetch_add(1) > 0) return;
  const std::lock_guard lock(mutex_);
  first_error_ = e;
}

std::optional<Error> Arena::fatal_error() const {
  const std::lock_guard lock(mutex_);
  return fatal_;
}

std::string Arena::first_error() const {
  const std::lock_guard lock(mutex_);
  return first_error_ ? first_error_->message : "";
}

void Arena::counted(Latency l, Nanoseconds n) {
  latency[static_cast<std::size_t>(l)].record(n);
  if (l == Latency::handoff || (l == Latency::acquire && !contended(scenario)) ||
      l == Latency::renew)
    timeline->add(Clock::now() - start(), n);
}

void Arena::grant(unsigned client) {
  ++per_client[client];  // this client's own entry
  grants_.fetch_add(1, std::memory_order_relaxed);
}

void Arena::waited(Nanoseconds n) {
  std::int64_t seen = longest_wait_.load(std::memory_order_relaxed);
  while (n.count() > seen &&
         !longest_wait_.compare_exchange_weak(seen, n.count(), std::memory_order_relaxed)) {}
}

void Arena::add(const Counters& from, const Counters& to) {
  requests_ += to.requests - from.requests;
  wakeups_ += to.wakeups - from.wakeups;
}

void Arena::violation() {
  if (!violated_.exchange(true)) tell();
}

Ledger::Tally Arena::tally() const {
  Ledger::Tally all;
  for (const auto& l : ledgers_) {
    Ledger::Tally one = l->tally();
    all.overlaps += one.overlaps;
    all.inversions += one.inversions;
    all.late += one.late;
    all.max_overtakes = std::max(all.max_overtakes, one.max_overtakes);
    if (all.first.empty()) all.first = std::move(one.first);
  }
  return all;
}

}  // namespace dlock::bench
