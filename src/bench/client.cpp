// SPDX-License-Identifier: Apache-2.0
#include "bench/client.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <exception>
#include "util/wait.hpp"

namespace dlock::bench {
namespace {

using namespace std::chrono_literals;

constexpr Duration after_error = 50ms;
constexpr unsigned release_tries = 3;

class BenchClient {
 public:
  BenchClient(Arena& arena, unsigned id)
      : arena_(arena), id_(id), ledger_(arena.ledger(id)), number_(arena.number(id)) {}
  void work();

 private:
  bool open();
  void take_and_release();
  void renew();
  std::optional<Deadline> next_start();
  std::optional<Granted> acquire(const Request&);
  void release(const Lease&);
  void renew_one(Lease&, bool counts);
  Request request(unsigned lease = 0);
  bool measuring() const noexcept { return arena_.phase() == Phase::measuring; }
  void nap_until(Deadline);
  void failed(const Error& e) {
    retryable(e.code) ? arena_.report_error(e) : arena_.report_fatal(e);
  }
  void note_phase();

  Arena& arena_;
  const unsigned id_;
  Ledger& ledger_;
  const unsigned number_;
  std::unique_ptr<Backend> backend_;
  std::optional<Counters> at_start_;
  std::uint64_t turn_ = 0, requested_ = 0;
  Identity identity_ = Identity::mine("bench");
};

void BenchClient::nap_until(Deadline t) {
  pollfd stop{arena_.stop_fd(), POLLIN, 0};
  while (!arena_.over() && Clock::now() < t) wait_until({&stop, 1}, t);
}

// Forgets the requests of the warm-up when measuring begins.
void BenchClient::note_phase() {
  if (!at_start_ && measuring()) at_start_ = backend_->counters();
}

bool BenchClient::open() {
  auto opened = arena_.target.open(arena_.plan.op_timeout, arena_.stop_fd());
  if (!opened) {
    arena_.report_fatal(opened.error());
    return false;
  }
  backend_ = std::move(*opened);
  // the first request connects
  const auto reached =
      backend_->check(key_of(arena_.target, arena_.scenario, id_), FencingToken{1});
  if (reached || arena_.over()) return true;
  arena_.report_fatal(reached.error());
  return false;
}

Request BenchClient::request(unsigned lease) {
  Request r{key_of(arena_.target, arena_.scenario, id_, lease), Owner::random()};
  r.ttl = arena_.plan.ttl;
  r.identity = identity_;
  if (arena_.scenario == Scenario::shared)
    r.mode = (turn_++ + id_) % 10 == 0 ? Mode::exclusive : Mode::shared;
  if (arena_.scenario == Scenario::limit) {
    r.mode = Mode::permit;
    r.limit = permits(arena_.plan.clients);
  }
  return r;
}

// Returns when the next acquisition should begin. With --rate, that is the scheduled time, even if
// it has passed, so that the delay counts as latency. If each client waited for the store instead,
// a slow store would get fewer requests exactly while it is slow (coordinated omission).
std::optional<Deadline> BenchClient::next_start() {
  if (arena_.plan.rate == 0) return Clock::now();
  const std::uint64_t n = requested_++ * arena_.plan.clients + id_;
  const std::uint64_t rate = arena_.plan.rate;
  const Nanoseconds after{
      static_cast<std::int64_t>(n / rate * 1'000'000'000 + n % rate * 1'000'000'000 / rate)};
  const Deadline due = arena_.begin() + after;
  nap_until(due);
  return arena_.over() ? std::nullopt : std::optional(due);
}

// nullopt: no grant, and the client has left the queue.
std::optional<Granted> BenchClient::acquire(const Request& r) {
  auto waiter = backend_->enqueue(r);
  if (!waiter) {
    failed(waiter.error());
    return std::nullopt;
  }
  while (!arena_.over()) {
    auto answer = (*waiter)->poll(1s);
    if (!answer) {
      failed(answer.error());
      break;
    }
    if (auto* granted = std::get_if<Granted>(&*answer)) return std::move(*granted);
  }
  for (unsigned i = 0; i < release_tries; ++i)
    if ((*waiter)->cancel()) break;
  return std::nullopt;
}

void BenchClient::release(const Lease& lease) {
  for (unsigned i = 1;; ++i) {
    const auto released = backend_->release(lease);
    if (released) {
      if (*released == Released::was_not_held)
        arena_.report_error({Errc::protocol, "release: the lock was not held any more"});
      return;
    }
    failed(released.error());
    if (i == release_tries || !retryable(released.error().code)) return;
  }
}

void BenchClient::take_and_release() {
  const Duration hold = arena_.plan.hold_for;
  bool counts = true;
  while (!arena_.over() && arena_.begin_op(counts)) {
    const auto due = next_start();
    if (!due) return;
    note_phase();
    const Request r = request();
    const Deadline requested = Clock::now();
    ledger_.requested(number_, requested);
    const auto granted = acquire(r);
    const Deadline at = Clock::now();
    if (measuring() || arena_.over()) arena_.count_wait(at - std::max(*due, arena_.start()));
    if (!granted) {
      ledger_.gave_up(number_);
      nap_until(later(at, after_error));
      continue;
    }
    const auto handoff = ledger_.granted(number_, granted->lease, at);
    if (handoff && counts && measuring()) arena_.count(Latency::handoff, *handoff);
    if (counts && measuring()) {
      arena_.count(Latency::acquire, at - *due);
      arena_.count_grant(id_);
    }
    if (hold > 0us) nap_until(later(at, hold));
    else if (contended(arena_.scenario))
      ::sched_yield();  // let another client run and look for overlaps, even on one processor
    const Deadline ending = Clock::now();
    ledger_.ending(number_, ending);
    release(granted->lease);
    if (counts && measuring()) arena_.count(Latency::release, Clock::now() - ending);
    if (ledger_.violated()) arena_.report_violation();
  }
}

void BenchClient::renew_one(Lease& lease, bool counts) {
  note_phase();
  const Deadline requested = Clock::now();
  const auto answer = backend_->renew(lease, arena_.plan.ttl);
  if (!answer) {
    failed(answer.error());
    return nap_until(later(Clock::now(), after_error));
  }
  if (const auto* kept = std::get_if<Kept>(&*answer)) {
    lease = kept->lease;
    if (!counts || !measuring()) return;
    arena_.count(Latency::renew, Clock::now() - requested);
    arena_.count_grant(id_);
    return;
  }
  arena_.report_fatal({Errc::protocol, "renew: a lease was lost: " + std::get<Lost>(*answer).why});
}

void BenchClient::renew() {
  std::vector<Lease> leases;
  for (unsigned i = 0; i < leases_per_client && !arena_.over(); ++i)
    if (auto granted = acquire(request(i))) leases.push_back(granted->lease);
  while (!arena_.over() && !leases.empty()) {
    for (Lease& l : leases) {
      bool counts = true;
      if (arena_.over() || !arena_.begin_op(counts)) break;
      renew_one(l, counts);
    }
    if (arena_.ops_are_over()) break;
  }
  for (const Lease& l : leases) release(l);
}

void BenchClient::work() {
  if (open()) {
    arena_.report_ready();
    arena_.wait_while_connecting();
    arena_.scenario == Scenario::renew ? renew() : take_and_release();
    if (at_start_) arena_.count_use(*at_start_, backend_->counters());
  }
  arena_.report_left();
}

}  // namespace

Key key_of(const Target& t, Scenario s, unsigned client, unsigned lease) {
  if (contended(s) || s == Scenario::crash)
    return *Key::parse(fmt::format("{}{}", t.tag, name_of(s)));
  return *Key::parse(fmt::format("{}{}-{}-{}", t.tag, name_of(s), client, lease));
}

std::vector<Key> keys_of(const Target& t, Scenario s, unsigned clients) {
  if (contended(s) || s == Scenario::crash) return {key_of(t, s, 0)};
  std::vector<Key> keys;
  for (unsigned i = 0; i < clients; ++i)
    for (unsigned j = 0; j < (s == Scenario::renew ? leases_per_client : 1); ++j)
      keys.push_back(key_of(t, s, i, j));
  return keys;
}

void work(Arena& arena, unsigned client) {
  try {
    BenchClient(arena, client).work();
  } catch (const std::exception& e) {
    arena.report_fatal({Errc::internal, fmt::format("a client failed: {}", e.what())});
    arena.report_left();
  }
}

}  // namespace dlock::bench
