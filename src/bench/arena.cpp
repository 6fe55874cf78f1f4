// SPDX-License-Identifier: Apache-2.0
#include "bench/arena.hpp"
#include <algorithm>

namespace dlock::bench {

Arena::Arena(const Plan& p, const Target& t, Scenario s)
    : plan(p),
      target(t),
      scenario(s),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      ops_left_(static_cast<std::int64_t>(p.ops)),
      per_client_(p.clients) {
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

bool Arena::begin_op(bool& counts) {
  const bool measured = phase() == Phase::measuring;
  counts = plan.ops == 0 || measured;
  if (plan.ops == 0 || !measured) return true;
  return ops_left_.fetch_sub(1, std::memory_order_relaxed) > 0;
}

void Arena::report_ready() {
  ++ready;
  if (all_ready()) wake();
}

void Arena::report_left() {
  ++left;
  if (all_left()) wake();
}

void Arena::report_fatal(Error e) {
  {
    const std::lock_guard lock(mutex_);
    if (!fatal_) fatal_ = std::move(e);
  }
  wake();
}

void Arena::report_error(Error e) {
  if (errors++ > 0) return;
  const std::lock_guard lock(mutex_);
  first_error_ = std::move(e);
}

void Arena::report_violation() {
  if (!violated.exchange(true)) wake();
}

std::optional<Error> Arena::fatal_error() const {
  const std::lock_guard lock(mutex_);
  return fatal_;
}

void Arena::count(Latency l, Nanoseconds n) {
  latency_[static_cast<std::size_t>(l)].record(n);
  if (l == Latency::handoff || (l == Latency::acquire && !contended(scenario)) ||
      l == Latency::renew)
    timeline_->add(Clock::now() - start(), n);
}

void Arena::count_grant(unsigned client) {
  ++per_client_[client];  // this client's own entry
  grants.fetch_add(1, std::memory_order_relaxed);
}

void Arena::count_wait(Nanoseconds n) {
  std::int64_t longest = longest_wait_.load(std::memory_order_relaxed);
  while (n.count() > longest &&
         !longest_wait_.compare_exchange_weak(longest, n.count(), std::memory_order_relaxed)) {}
}

void Arena::count_use(const Counters& from, const Counters& to) {
  requests_ += to.requests - from.requests;
  wakeups_ += to.wakeups - from.wakeups;
}

Ledger::Tally Arena::tally() const {
  Ledger::Tally all;
  for (const auto& l : ledgers_) all.add(l->tally());
  return all;
}

void Arena::add_to(Figures& f, double seconds) const {
  std::uint64_t granted = 0;
  for (std::size_t i = 0; i < per_client_.size(); ++i) {
    f.per_client[i] += per_client_[i];
    granted += per_client_[i];
  }
  f.rounds.push_back(static_cast<double>(granted) / seconds);
  for (std::size_t l = 0; l < latencies; ++l) f.latency[l].add(latency_[l]);
  f.seconds += seconds;
  f.grants += granted;
  f.errors += errors;
  if (f.first_error.empty() && first_error_) f.first_error = first_error_->message;
  f.requests += requests_;
  f.wakeups += wakeups_;
  f.longest_wait = std::max(f.longest_wait, Nanoseconds{longest_wait_.load()});
  f.timeline = timeline_;
  f.add(tally());
}

}  // namespace dlock::bench
