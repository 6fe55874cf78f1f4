// SPDX-License-Identifier: Apache-2.0
// How a lock ends without a release: by its ttl, by the end of its process, with and without
// lock-delay.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include "contract/helpers.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

bool process_bound() { return subject().traits->liveness == Liveness::process; }

// A lock that lasts as long as a descriptor is open: a file, or the socket of a session.
bool by_descriptor() {
  return process_bound() || subject().traits->liveness == Liveness::connection;
}

// A lease that ends by its ttl, if the recipe has any.
Request ending() {
  Request r = request("k");
  r.ttl = ending_ttl();
  if (process_bound()) r.attached = false;
  return r;
}
void need_leases() {
  need(!process_bound() || subject().traits->detached, "leases that end by their time");
}

// Takes a lease that ends, and does what has to be done before. In real time a busy machine may
// come to that only when it is over: then with another one.
template <class Done>
Granted in_time(Backend& holder, const Done& done) {
  for (int tries = 20;; --tries) {
    Granted held = take(holder, ending());
    if (done(held)) return held;
    REQUIRE(subject().real_time);
    REQUIRE(Clock::now() >= held.lease.deadline);
    REQUIRE(tries > 0);
  }
}

}  // namespace

CONTRACT_CASE("a lease that has ended is lost and never revived") {
  need_leases();
  const auto backend = store.open({}), other = store.open({});
  const Granted g = take(*backend, ending());
  pass(ending_ttl());
  REQUIRE(
      becomes([&] { return other->check(key("k"), g.lease.token).value() == Validity::stale; }));
  CHECK(Clock::now() >= g.lease.deadline);
  CHECK(lost(backend->renew(g.lease, 60s)));
  CHECK(other->check(key("k"), g.lease.token).value() == Validity::stale);
  CHECK(backend->release(g.lease).value() == Released::was_not_held);
}

CONTRACT_CASE("another gets the key when the lease ends, not before") {
  need_leases();
  const auto backend = store.open({}), other = store.open({});
  const Granted g = in_time(*backend, [&](const Granted&) {
    pass(ending_ttl() / 10 * 9);
    return !free_now(*other, request("k"));
  });
  pass(ending_ttl() / 10);
  const Granted next = take(*other, request("k"));
  CHECK(Clock::now() >= g.lease.deadline);
  CHECK(next.lease.token > g.lease.token);
  CHECK(lost(backend->renew(g.lease, 60s)));
  CHECK(kept(other->renew(next.lease, 60s)));
}

CONTRACT_CASE("a renewed lease outlives its first deadline") {
  need_leases();
  need(subject().traits->liveness != Liveness::session, "renewals for longer than the first ttl");
  const auto backend = store.open({}), other = store.open({});
  const Granted g = in_time(*backend, [&](const Granted& held) {
    pass(ending_ttl() / 2);
    return kept(backend->renew(held.lease, 60s));
  });
  auto w = in_queue(*other, request("k"));
  pass(ending_ttl());
  CHECK(std::holds_alternative<Waiting>(step(*w, subject().real_time ? 2 * ending_ttl() : 0s)));
  CHECK(other->check(key("k"), g.lease.token).value() == Validity::valid);
  // A renewal may also bring the end nearer. In real time, for every recipe: a moved clock does not
  // wake a waiter that sleeps until then.
  const auto nearer = backend->renew(g.lease, subject().shortest_ttl).value();
  REQUIRE(std::holds_alternative<Kept>(nearer));
  CHECK(take(*w).lease.token > g.lease.token);
  CHECK(Clock::now() >= std::get<Kept>(nearer).lease.deadline);
}

CONTRACT_CASE("a detached lease survives the closing of its Backend") {
  need(subject().traits->detached, "detached leases");
  auto backend = store.open({});
  const Granted g = take(*backend, detached(request("k"), 60s));
  CHECK(g.hold_fd == -1);
  CHECK_FALSE(g.lease.attached);
  CHECK(g.lease.deadline != no_deadline);
  backend.reset();
  const auto other = store.open({}), third = store.open({});
  CHECK(other->check(key("k"), g.lease.token).value() == Validity::valid);
  CHECK_FALSE(free_now(*third, request("k")));
  // A handle contains the owner and the ticket, nothing else.
  Lease handle{key("k"), g.lease.owner};
  handle.ticket = g.lease.ticket;
  const auto again = other->renew(handle, 30s).value();
  REQUIRE(std::holds_alternative<Kept>(again));
  CHECK(std::get<Kept>(again).lease.token == g.lease.token);
  CHECK(other->release(handle).value() == Released::yes);
  CHECK(free_now(*third, request("k")));
}

CONTRACT_CASE("detach: the lock outlives its process, for as long as asked") {
  need(subject().traits->detached, "detached leases");
  auto backend = store.open({});
  const auto other = store.open({});
  const Granted g = take(*backend, request("k"));
  auto w = in_queue(*other, request("k"));
  const Duration ttl = ending_ttl() * (subject().real_time ? 2 : 1);  // not that of the grant
  const auto answer = backend->detach(g.lease, ttl).value();
  REQUIRE(std::holds_alternative<Kept>(answer));
  const Lease lease = std::get<Kept>(answer).lease;
  CHECK_FALSE(lease.attached);
  CHECK(lease.token == g.lease.token);
  CHECK(lease.deadline <= later(Clock::now(), ttl));
  backend.reset();
  pass(ttl / 2);
  const Validity meanwhile = other->check(key("k"), g.lease.token).value();
  // in real time a busy machine may come to the question only when it is over
  if (Clock::now() < lease.deadline) CHECK(meanwhile == Validity::valid);
  pass(ttl / 2);
  const Granted next = take(*w);
  CHECK(Clock::now() >= lease.deadline);
  CHECK(next.lease.token > g.lease.token);
}

CONTRACT_CASE("detach is refused where nothing outlives the process") {
  if (subject().traits->detached) throw Skip{"detaches"};
  const auto backend = store.open({});
  const Granted g = take(*backend, request("k"));
  const auto answer = backend->detach(g.lease, 60s);
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == Errc::usage);
  CHECK(kept(backend->renew(g.lease, 60s)));
}

CONTRACT_CASE("an attached lock ends with its Backend") {
  need(by_descriptor(), "locks that end with their process");
  auto backend = store.open({});
  const auto other = store.open({}), third = store.open({});
  const Granted g = take(*backend, request("k"));
  auto w = in_queue(*other, request("k"));
  backend.reset();
  const auto over = [&] {
    return third->check(key("k"), g.lease.token).value() == Validity::stale;
  };
  if (process_bound()) CHECK(over());
  else CHECK(becomes(over));  // a server takes time to notice
  CHECK(take(*w).lease.token > g.lease.token);
}

CONTRACT_CASE("a duplicate of hold_fd keeps the lock when its Backend is gone") {
  need(by_descriptor(), "a lock that ends with a descriptor");
  auto backend = store.open({});
  const auto other = store.open({});
  const Granted g = take(*backend, request("k"));
  REQUIRE(g.hold_fd >= 0);
  Fd guard(::fcntl(g.hold_fd, F_DUPFD_CLOEXEC, 3));
  auto w = in_queue(*other, request("k"));
  backend.reset();
  CHECK(std::holds_alternative<Waiting>(step(*w, 50ms)));
  CHECK(other->check(key("k"), g.lease.token).value() == Validity::valid);
  guard.reset();
  CHECK(take(*w).lease.token > g.lease.token);
}

CONTRACT_CASE("a killed process gives its lock up") {
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  Fd read_end(ready[0]), write_end(ready[1]);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const auto backend = store.open({});
    Request r = request("k");
    r.ttl = ending_ttl();
    const Granted g = take(*backend, r);
    (void)!::write(write_end.get(), &g.lease.token, sizeof g.lease.token);
    for (;;) ::pause();
  }
  FencingToken token = 0;
  write_end.reset();
  REQUIRE(::read(read_end.get(), &token, sizeof token) == sizeof token);
  const auto backend = store.open({});
  auto w = backend->enqueue(request("k")).value();
  if (process_bound()) CHECK(std::holds_alternative<Waiting>(step(*w, 50ms)));
  ::kill(holder, SIGKILL);
  if (!process_bound()) pass(ending_ttl());
  CHECK(take(*w).lease.token > token);
  ::waitpid(holder, nullptr, 0);
}

CONTRACT_CASE("lock-delay: after a holder has vanished, and only then") {
  need(subject().traits->lock_delay, "a lock-delay");
  const Duration delay = 700ms;
  Request r = process_bound() ? request("k") : ending();
  r.lock_delay = delay;
  auto backend = store.open({});
  const auto other = store.open({});
  Request lasting = r;
  lasting.ttl = 60s;
  const Granted clean = take(*backend, lasting);
  backend->release(clean.lease).value();
  CHECK(free_now(*other, request("k")));

  r.owner = Owner::random();
  const Granted g = take(*backend, r);
  auto w = other->enqueue(request("k")).value();
  (void)step(*w, 0s);
  const Deadline vanished = process_bound() ? Clock::now() : g.lease.deadline;
  backend.reset();
  if (!process_bound()) pass(r.ttl);
  const Granted next = take(*w);  // sleeps until the end of the delay
  CHECK(Clock::now() >= later(vanished, delay));
  CHECK(next.lease.token > g.lease.token);
}
