// SPDX-License-Identifier: Apache-2.0
// What a lock costs its store: requests and wake-ups, by the clients' own count. Time is nothing
// that a test can judge: an attempt of a busy machine that took so long that waiters looked of
// themselves, or may have lost their places, says nothing and is made again.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include "contract/helpers.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

constexpr Duration short_enough = 2s;  // every recipe's waiters look, and claim, less often
constexpr int attempts = 6;

std::size_t descriptors() {
  const std::filesystem::directory_iterator open{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

struct Tally {
  double requests = 0, wakes = 0;  // of each grant and its release
  long grants = 0;
  unsigned most = 0;  // at a time
  bool rising = true, in_order = true;
};

// Clients that take and release one key in turns, each on a thread of its own; all wait before the
// first is granted.
class Crowd {
 public:
  Crowd(Store& store, Request r, unsigned clients, long grants)
      : request_(std::move(r)), left_(grants - clients), backends_(clients), waiters_(clients) {
    const auto gate = store.open({});
    std::vector<Lease> held;
    for (unsigned i = 0; i < std::min(request_.limit, clients); ++i) {
      held.push_back(take(*gate, next()).lease);
      if (request_.mode == Mode::exclusive) break;
    }
    for (unsigned i = 0; i < clients; ++i) {
      backends_[i] = store.open({});
      waiters_[i] = backends_[i]->enqueue(next()).value();
      // Long enough to block: a slice of zero costs some stores a request more.
      if (!std::holds_alternative<Waiting>(step(*waiters_[i], 2ms)))
        throw std::runtime_error("does not wait");
    }
    const Counters before = counters();
    {
      std::vector<std::jthread> threads;
      for (unsigned i = clients; i-- > 0;) threads.emplace_back([this, i] { take_turns(i); });
      for (const Lease& lease : held) gate->release(lease).value();
    }
    const Counters after = counters();
    const auto each = [&](std::uint64_t n) {
      return static_cast<double>(n) / static_cast<double>(std::max(tally_.grants, 1L));
    };
    tally_.requests = each(after.requests - before.requests);
    tally_.wakes = each(after.wakeups - before.wakeups);
  }
  const std::string& error() const { return error_; }
  const Tally& tally() const { return tally_; }

 private:
  Request next() const {
    Request r = request_;
    r.owner = Owner::random();
    return r;
  }
  Counters counters() const {
    Counters sum;
    for (const auto& b : backends_) {
      sum.requests += b->counters().requests;
      sum.wakeups += b->counters().wakeups;
    }
    return sum;
  }
  void take_turns(unsigned i) {
    try {
      for (bool first = true; first || left_.fetch_sub(1) > 0; first = false) {
        if (!first) waiters_[i] = backends_[i]->enqueue(next()).value();
        const Lease lease = take(*waiters_[i]).lease;
        waiters_[i].reset();
        enter(lease, i, first);
        {
          const std::lock_guard lock{mutex_};
          --inside_;
        }
        backends_[i]->release(lease).value();
      }
    } catch (const std::exception& e) {
      const std::lock_guard lock{mutex_};
      error_ = e.what();
    }
  }
  void enter(const Lease& lease, unsigned i, bool first) {
    const std::lock_guard lock{mutex_};
    ++tally_.grants;
    tally_.most = std::max(tally_.most, ++inside_);
    tally_.rising &= lease.token > newest_ || request_.mode != Mode::exclusive;
    newest_ = lease.token;
    if (!first) return;
    tally_.in_order &= last_ <= i;
    last_ = i;
  }

  const Request request_;
  std::atomic<long> left_;  // besides the first grant of each
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<Waiter>> waiters_;
  std::mutex mutex_;
  std::string error_;
  Tally tally_;
  unsigned inside_ = 0, last_ = 0;
  FencingToken newest_ = 0;
};

// The tally of an attempt that was quick enough.
Tally contend(Store& store, Mode mode, unsigned limit, unsigned clients, long grants) {
  std::string why;
  for (int i = 0; i < attempts; ++i) {
    Request r = request("crowd" + std::to_string(i), mode, limit);
    const Deadline began = Clock::now();
    try {
      const Crowd crowd{store, r, clients, grants};
      why = crowd.error();
      if (Clock::now() - began > short_enough) continue;
      if (!why.empty()) FAIL(why);
      return crowd.tally();
    } catch (const std::runtime_error& e) {
      why = e.what();
      if (Clock::now() - began <= short_enough) throw;
    }
  }
  throw Skip{"this machine is too busy for a count; " + why};
}

}  // namespace

CONTRACT_CASE("cost: to take a free key, to renew, and to give it back") {
  const Costs& promised = subject().costs;
  need(promised.free > 0, "a count of requests for a free key");
  const auto backend = store.open({});
  // A request that a busy machine answers too late is made again; a cost shows each time.
  const auto twenty = [&](double each, const auto& call) {
    double seen = 0;
    for (int i = 0; i < attempts && seen != 20 * each; ++i) {
      const std::uint64_t before = backend->counters().requests;
      for (int n = 0; n < 20; ++n) call();
      seen = static_cast<double>(backend->counters().requests - before);
    }
    CHECK(seen == 20 * each);
  };
  const auto cycle = [&] { backend->release(take(*backend, request("free")).lease).value(); };
  for (int i = 0; i < 3; ++i) cycle();  // databases: as text, prepared, and as values alone
  twenty(promised.free, cycle);
  const Lease held = take(*backend, request("free")).lease;
  const auto renew = [&] { CHECK(kept(backend->renew(held, 60s))); };
  for (int i = 0; i < 3; ++i) renew();
  if (promised.renewal > 0) twenty(promised.renewal, renew);
}

CONTRACT_CASE("cost: a grant behind others, and its release; each wakes one waiter") {
  const Costs& costs = subject().costs;
  need(costs.wakes > 0, "a count of wake-ups");
  constexpr unsigned clients = 8;
  const std::size_t before = descriptors();
  const Tally seen = contend(store, Mode::exclusive, UINT_MAX, clients, 2 * clients);
  CAPTURE(seen.requests, seen.wakes);
  CHECK(seen.grants == 2 * clients);
  CHECK(seen.most == 1);
  CHECK(seen.rising);
  CHECK((seen.in_order || !subject().traits->fifo));
  if (costs.queued > 0) CHECK(seen.requests <= costs.queued);
  CHECK(seen.wakes <= costs.wakes);
  CHECK(descriptors() == before);
}

CONTRACT_CASE("cost: a permit wakes few, however many wait") {
  const Costs& costs = subject().costs;
  need(costs.permit_wakes > 0, "a count of wake-ups for permits");
  const Tally seen = contend(store, Mode::permit, 3, 20, 20);
  CAPTURE(seen.requests, seen.wakes);
  CHECK(seen.grants == 20);
  CHECK(seen.most <= 3);
  CHECK(seen.wakes <= costs.permit_wakes);
}
