// SPDX-License-Identifier: Apache-2.0
#include "stores/contest.hpp"
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace dlock::prove {

using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

Lease granted(Waiter& waiter) {
  for (;;) {
    const auto p = waiter.poll(60s);
    if (!p && !retryable(p.error().code)) throw std::runtime_error(p.error().message);
    if (p && std::holds_alternative<Granted>(*p)) return std::get<Granted>(*p).lease;
  }
}

// The clients of one queue, and what they have done so far.
class Crowd {
 public:
  Crowd(const Place& place, const Queue& queue)
      : place_(place), queue_(queue), backends_(queue.waiters), waiters_(queue.waiters) {}

  struct Counts {
    double requests = 0, wakes = 0, conflicts = 0;
  };
  Counts counts() const {
    Counts c;
    for (const auto& b : backends_) {
      if (!b) continue;
      c.requests += static_cast<double>(b->counters().requests);
      c.wakes += static_cast<double>(b->counters().wakeups);
      if (place_.conflicts) c.conflicts += static_cast<double>(place_.conflicts(*b));
    }
    if (place_.requests) c.requests = static_cast<double>(place_.requests());
    return c;
  }
  Request ask() const {
    Request r = request(key("contended"), queue_.ttl);
    r.mode = queue_.mode;
    r.limit = queue_.limit;
    return r;
  }
  void join() {
    for (std::size_t i = 0; i < backends_.size(); ++i) {
      backends_[i] = place_.open();
      waiters_[i] = backends_[i]->enqueue(ask()).value();
      // long enough to block: a slice of zero costs some stores a request more
      if (!std::holds_alternative<Waiting>(waiters_[i]->poll(2ms).value()))
        throw std::runtime_error("does not wait");
    }
  }
  // Until there were so many grants; `begin` grants the first.
  void take_turns(const std::function<void()>& begin) {
    std::vector<std::thread> threads;
    for (std::size_t i = backends_.size(); i-- > 0;)
      threads.emplace_back([this, i] {
        try {
          take_turn(i);
        } catch (const std::exception& e) {
          const std::lock_guard lock{mutex_};
          error = e.what();
        }
      });
    begin();
    for (auto& t : threads) t.join();
  }

  std::string error;
  long done = 0;
  unsigned most = 0;  // at a time
  bool rising = true;
  std::vector<std::size_t> order;  // of the first grants
  std::vector<double> hand_offs;   // ms

 private:
  void take_turn(std::size_t i) {
    for (bool first = true; first || left_.fetch_sub(1) > 0; first = false) {
      if (!first) waiters_[i] = backends_[i]->enqueue(ask()).value();
      const Lease lease = granted(*waiters_[i]);
      waiters_[i].reset();
      enter(lease, i, first);
      if (queue_.limit > 1) ::usleep(2000);  // so that there are others beside it
      {
        const std::lock_guard lock{mutex_};
        --inside_;
        released_ = Clock::now();
      }
      release_or_fail(*backends_[i], lease);
    }
  }
  void enter(const Lease& lease, std::size_t i, bool first) {
    const std::lock_guard lock{mutex_};
    if (released_ != Deadline{}) hand_offs.push_back(seconds(Clock::now() - released_) * 1e3);
    if (first) order.push_back(i);
    most = std::max(most, ++inside_);
    rising &= lease.token > newest_ || queue_.limit > 1;
    newest_ = lease.token;
    ++done;
  }

  const Place& place_;
  const Queue& queue_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<Waiter>> waiters_;
  // Besides the first grant of each: a place that is given up wakes the one behind it.
  std::atomic<long> left_{queue_.grants - static_cast<long>(queue_.waiters)};
  std::mutex mutex_;
  unsigned inside_ = 0;
  FencingToken newest_ = 0;
  Deadline released_{};
};

}  // namespace

Key key(std::string_view text) { return *Key::parse(text); }

double per_second(long n, const std::function<void()>& call) {
  const auto began = Clock::now();
  for (long i = 0; i < n; ++i) call();
  return static_cast<double>(n) / seconds(Clock::now() - began);
}

void uncontended(const Place& place, const Free& f) {
  const auto backend = place.open();
  const auto count = [&] {
    return place.requests ? place.requests() : backend->counters().requests;
  };
  const auto cycle = [&] {
    release_or_fail(*backend, acquire_or_fail(*backend, request(key("free"), 30s)));
  };
  for (int i = 0; i < 3; ++i) cycle();  // with databases as text, prepared, and as values alone
  std::uint64_t requests = 0;
  std::vector<double> ours, raw, ratios;
  for (int turn = 0; turn < f.turns; ++turn) {
    if (f.raw) raw.push_back(per_second(f.n, f.raw));
    const std::uint64_t before = count();
    ours.push_back(per_second(f.n, cycle));
    requests += count() - before;
    if (f.raw) ratios.push_back(ours.back() / raw.back());
  }
  const double each = static_cast<double>(requests) / static_cast<double>(f.n * f.turns);
  fmt::print("{}, free: {:.2f} requests, {:.0f} grants and releases per s", place.name, each,
             quantile(ours, 0.5));
  if (f.raw)
    fmt::print("; without dlock {:.0f}/s, ratio {:.2f}; medians of {} turns", quantile(raw, 0.5),
               quantile(ratios, 0.5), f.turns);
  fmt::print("\n");
  must(each <= f.requests && each > f.requests - 0.1,
       fmt::format("{}: {} requests to take and release a free key", place.name, f.requests));
}

Cost contended(const Place& place, const Queue& queue) {
  rlimit files{};  // each client has some
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  Crowd crowd{place, queue};
  const auto gate = place.open();
  std::vector<Lease> held;
  for (unsigned i = 0; i < queue.limit; ++i) held.push_back(acquire_or_fail(*gate, crowd.ask()));
  auto before = crowd.counts();
  auto counted_from = Clock::now();
  crowd.join();
  if (!queue.with_first) {
    before = crowd.counts();
    counted_from = Clock::now();
  }
  const auto began = Clock::now();
  crowd.take_turns([&] {
    for (const Lease& lease : held) release_or_fail(*gate, lease);
  });
  const double took = seconds(Clock::now() - began);
  const double counted = seconds(Clock::now() - counted_from);
  const auto after = crowd.counts();
  const double done = static_cast<double>(crowd.done),
               gates = place.requests ? static_cast<double>(queue.limit) : 0,
               looks = queue.looks == Duration{}
                           ? 0
                           : queue.waiters * counted / seconds(queue.looks) / done,
               requests = (after.requests - before.requests - gates) / done,
               wakes = (after.wakes - before.wakes) / done,
               conflicts = (after.conflicts - before.conflicts) / done;
  fmt::print(
      "{}, {} waiters{}: {} grants, of each {:.2f} requests, {:.2f} wake-ups, {:.3f} conflicts; "
      "{:.0f} grants/s; hand-off p50 {:.2f} ms, p99 {:.2f} ms\n",
      place.name, queue.waiters, queue.limit > 1 ? fmt::format(", {} permits", queue.limit) : "",
      crowd.done, requests, wakes, conflicts, done / took, quantile(crowd.hand_offs, 0.5),
      quantile(crowd.hand_offs, 0.99));
  const auto promised = [&](bool so, std::string_view what) {
    must(so, fmt::format("{}, {} waiters: {}", place.name, queue.waiters, what));
  };
  promised(crowd.error.empty(), crowd.error);
  promised(crowd.done == queue.grants, "no waiter is lost");
  promised(crowd.most <= queue.limit, "never more holders than allowed");
  promised(crowd.rising, "tokens rise");
  promised(requests - looks <= queue.most_requests, "requests per grant");
  promised(wakes - looks <= queue.most_wakes, "wake-ups per grant");
  promised(conflicts <= 0.05, "conflicts per grant");
  promised(!queue.ordered || std::is_sorted(crowd.order.begin(), crowd.order.end()),
           "first come, first served");
  return {requests, looks};
}

int run_parts(int argc, char** argv, std::initializer_list<Part> parts) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::vector<std::string_view> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word{argv[i]};
    if (word == "--full") full = true;
    else if (std::any_of(parts.begin(), parts.end(), [&](auto& p) { return p.name == word; }))
      wanted.push_back(word);
    else return fmt::print(stderr, "no part '{}'\n", word), 64;
  }
  try {
    for (const Part& part : parts)
      if (wanted.empty() ? full || !part.long_one
                         : std::find(wanted.begin(), wanted.end(), part.name) != wanted.end())
        part.run();
  } catch (const std::exception& e) {
    fmt::print("FAILED: {}\n", e.what());
    return 1;
  }
  return failed ? 1 : 0;
}

}  // namespace dlock::prove
