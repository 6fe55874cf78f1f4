// SPDX-License-Identifier: Apache-2.0
// A place in the queue: how a wait ends, and what remains of it.
#include <future>
#include "contract/helpers.hpp"

using namespace dlock;
using namespace dlock::contract;

namespace {

// Waiters that sleep until a process ends. A Waiter that nobody polls is that of a stopped process.
void need_waiters_on_processes() {
  const Traits& t = *subject().traits;
  need(t.liveness == Liveness::process && t.fifo, "waiters in FIFO order that watch processes");
}

// Nothing wakes the waiter: it has to look by itself before `bound` has passed.
bool comes_within(Waiter& w, Duration bound) {
  for (; bound > 0s; bound -= 500ms) {
    pass(500ms);
    if (std::holds_alternative<Granted>(step(w, 0s))) return true;
  }
  return false;
}

}  // namespace

CONTRACT_CASE("a request without wait is answered busy, with the holder") {
  const auto backend = store.open({}), other = store.open({});
  const Granted g = take(*backend, request("k"));
  auto w = other->enqueue(impatient(request("k"))).value();
  const auto p = step(*w, 0s);
  REQUIRE(std::holds_alternative<Busy>(p));
  const auto& holder = std::get<Busy>(p).holder;
  REQUIRE(holder);
  CHECK(holder->token == g.lease.token);
  CHECK(holder->who.pid == ::getpid());
  CHECK(holder->who.reason == "contract");
  if (const auto seen = other->inspect(key("k")).value().value(); seen.waiters_known)
    CHECK(seen.waiters.empty());
}

CONTRACT_CASE("the end of a slice reports the holder") {
  const auto backend = store.open({}), one = store.open({}), two = store.open({});
  const Granted g = take(*backend, request("k"));
  auto first = in_queue(*one, request("k")), second = in_queue(*two, request("k"));
  const auto p = step(*second, 20ms);
  REQUIRE(std::holds_alternative<Waiting>(p));
  const auto& waiting = std::get<Waiting>(p);
  if (subject().traits->fifo) CHECK(waiting.ahead == 1);
  REQUIRE(waiting.holder);
  CHECK(waiting.holder->token == g.lease.token);
}

CONTRACT_CASE("a wait says for how long the holder has held, as inspect does, or nothing") {
  const auto backend = store.open({}), other = store.open({});
  Request wanted = request("k");
  wanted.identity.since -= 3'600'000'000;  // it waited for an hour, or its clock is wrong
  const Deadline began = Clock::now();
  const Granted g = take(*backend, wanted);
  const Deadline granted = Clock::now();
  ::usleep(20'000);  // a time that counts from the renewal is shorter than one from the grant
  CHECK(kept(backend->renew(g.lease, 60s)));
  const auto seen = other->inspect(key("k")).value().value();
  const auto check = [&](const std::optional<HolderView>& holder, Deadline asked) {
    REQUIRE(holder);
    const auto held = holder->held();
    CHECK(held.has_value() == seen.holders.at(0).held().has_value());
    if (subject().traits->native && subject().traits->family != "zookeeper") CHECK(held);
    if (!held) return;
    CHECK(*held >= asked - granted - 1ms);
    CHECK(*held <= Clock::now() - began + 1ms);
  };
  const Deadline asked = Clock::now();
  check(std::get<Busy>(step(*other->enqueue(impatient(request("k"))).value(), 0s)).holder, asked);
  const auto w = in_queue(*other, request("k"));
  check(std::get<Waiting>(step(*w, 20ms)).holder, asked);
  const Duration passed = subject().real_time ? 0s : 1s;
  pass(passed);
  check(std::get<Waiting>(step(*w, 20ms)).holder, later(asked, passed));
}

// --max-waiters.
CONTRACT_CASE("the first answer of a queue says how many wait") {
  if (!subject().traits->fifo) return;
  const auto backend = store.open({}), one = store.open({}), two = store.open({}),
             three = store.open({});
  const Granted g = take(*backend, request("k"));
  const auto first = in_queue(*one, request("k")), second = in_queue(*two, request("k"));
  const auto third = three->enqueue(request("k")).value();
  const auto p = step(*third, 0s);
  REQUIRE(std::holds_alternative<Waiting>(p));
  CHECK(std::get<Waiting>(p).ahead == 2);
  CHECK(std::get<Waiting>(p).sent_at > Deadline{});
}

// What is known from before is no answer: a store that falls silent would seem to hold the lock.
CONTRACT_CASE("an answer says when its request left, and what brought none is none") {
  const auto backend = store.open({}), other = store.open({});
  const Granted g = take(*backend, request("k"));
  const Deadline before_try = Clock::now();
  const auto refused = step(*other->enqueue(impatient(request("k"))).value(), 0s);
  const Deadline tried = std::get<Busy>(refused).sent_at;
  CHECK(before_try <= tried);
  CHECK(tried <= Clock::now());

  auto w = other->enqueue(request("k")).value();
  const Deadline before = Clock::now();
  const Deadline first = std::get<Waiting>(step(*w, 0s)).sent_at;
  CHECK(before <= first);
  CHECK(first <= Clock::now());
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t requests = other->counters().requests;
    const Deadline began = Clock::now();
    const Deadline sent = std::get<Waiting>(step(*w, 20ms)).sent_at;
    CAPTURE(i);
    CHECK((sent == Deadline{} || before <= sent));
    CHECK(sent <= Clock::now());
    // A file is looked at without a request.
    if (subject().traits->family != "file" && other->counters().requests == requests)
      CHECK(sent < began);
  }
}

CONTRACT_CASE("a readable interrupt_fd ends a wait at once") {
  const Event interrupt;
  Settings settings;
  settings.interrupt_fd = interrupt.fd();
  const auto backend = store.open({}), other = store.open(settings);
  const Granted g = take(*backend, request("k"));
  auto w = in_queue(*other, request("k"));
  auto answer = std::async(std::launch::async, [&] { return step(*w, 10min); });
  CHECK(answer.wait_for(20ms) == std::future_status::timeout);
  interrupt.set();
  REQUIRE(answer.wait_for(patient) == std::future_status::ready);
  CHECK(std::holds_alternative<Waiting>(answer.get()));
  CHECK(w->cancel().has_value());
}

CONTRACT_CASE("cancel leaves the queue") {
  const auto backend = store.open({}), one = store.open({}), two = store.open({});
  const Granted g = take(*backend, request("k"));
  auto leaver = in_queue(*one, request("k")), behind = in_queue(*two, request("k"));
  CHECK(leaver->cancel().has_value());
  CHECK(leaver->cancel().has_value());
  if (const auto seen = two->inspect(key("k")).value().value(); seen.waiters_known)
    CHECK(seen.waiters.size() == 1);
  backend->release(g.lease).value();
  CHECK(take(*behind).lease.token > g.lease.token);
}

CONTRACT_CASE("a writer that leaves the queue lets the readers behind it join those that hold") {
  need(subject().traits->shared && subject().traits->fifo, "shared mode in FIFO order");
  const auto a = store.open({}), b = store.open({}), c = store.open({});
  const Granted reader = take(*a, request("k", Mode::shared));
  auto writer = in_queue(*b, request("k")), behind = in_queue(*c, request("k", Mode::shared));
  CHECK(writer->cancel().has_value());
  CHECK(take(*behind).lease.token > reader.lease.token);
  CHECK(kept(a->renew(reader.lease, 60s)));
}

CONTRACT_CASE("cancel releases a lock that was granted meanwhile") {
  const auto backend = store.open({}), one = store.open({}), two = store.open({});
  const Granted g = take(*backend, request("k"));
  auto late = in_queue(*one, request("k"));
  backend->release(g.lease).value();  // granted now, though it has not polled yet
  CHECK(late->cancel().has_value());
  CHECK(free_now(*two, request("k")));
  auto granted = one->enqueue(request("k")).value();
  const Granted again = take(*granted);
  CHECK(granted->cancel().has_value());
  CHECK(lost(one->renew(again.lease, 60s)));
  CHECK(free_now(*two, request("k")));
}

CONTRACT_CASE("cancel before the first poll leaves no trace") {
  const auto backend = store.open({});
  auto w = backend->enqueue(request("k")).value();
  CHECK(w->cancel().has_value());
  w.reset();
  const auto seen = backend->inspect(key("k")).value();
  CHECK((!seen || (seen->holders.empty() && seen->waiters.empty())));
}

CONTRACT_CASE("an abandoned waiter blocks no other and leaves no trace") {
  const auto backend = store.open({}), two = store.open({});
  auto one = store.open({});
  const Granted g = take(*backend, request("k"));
  Request leaver = request("k");
  if (subject().place_lasts) leaver.ttl = 2 * ending_ttl();
  auto gone = in_queue(*one, leaver);
  auto behind = in_queue(*two, request("k"));
  gone.reset();
  one.reset();
  for (int i = 0; i < 3; ++i) {  // longer than it may be silent, and `behind` is not
    pass(4s);
    CHECK(std::holds_alternative<Waiting>(step(*behind, 0s)));
  }
  const auto left = [&] {
    const auto seen = backend->inspect(key("k")).value().value();
    return !seen.waiters_known || seen.waiters.size() == 1;
  };
  CHECK(becomes([&] { return std::holds_alternative<Waiting>(step(*behind, 10ms)) && left(); }));
  backend->release(g.lease).value();
  CHECK(take(*behind).lease.token > g.lease.token);
}

CONTRACT_CASE("a grant outlives its Waiter") {
  const auto backend = store.open({}), other = store.open({});
  auto w = backend->enqueue(request("k")).value();
  const Granted g = take(*w);
  w.reset();
  CHECK_FALSE(free_now(*other, request("k")));
  CHECK(kept(backend->renew(g.lease, 60s)));
  CHECK(backend->release(g.lease).value() == Released::yes);
}

CONTRACT_CASE("a waiter that is stopped keeps nobody out for good who does not wait") {
  need(subject().traits->fifo, "an order");
  const auto backend = store.open({}), slow = store.open({}), other = store.open({});
  const Granted g = take(*backend, request("k"));
  Request r = request("k");
  r.ttl = ending_ttl();
  auto stopped = in_queue(*slow, r);
  backend->release(g.lease).value();
  const auto granted = [&] {
    auto w = other->enqueue(impatient(request("k"))).value();
    return std::holds_alternative<Granted>(step(*w, 0s));
  };
  for (int tries = 0; !granted(); ++tries) {
    REQUIRE(tries < 300);
    pass(1s);
    ::usleep(100'000);
  }
}

CONTRACT_CASE(
    "behind a stopped first waiter: the next is granted within 15 s of a holder's death") {
  need_waiters_on_processes();
  auto holder = store.open({});
  const auto one = store.open({}), two = store.open({});
  take(*holder, request("k"));
  const auto stopped = in_queue(*one, request("k")), next = in_queue(*two, request("k"));
  holder.reset();
  CHECK(comes_within(*next, 15s));
}

CONTRACT_CASE("behind several stopped waiters: each costs less than 3 s more") {
  need_waiters_on_processes();
  auto holder = store.open({});
  const auto one = store.open({}), two = store.open({}), three = store.open({}),
             four = store.open({});
  take(*holder, request("k"));
  const auto first = in_queue(*one, request("k")), second = in_queue(*two, request("k")),
             third = in_queue(*three, request("k")), next = in_queue(*four, request("k"));
  holder.reset();
  CHECK(comes_within(*next, 15s + 2 * 3s));
}

CONTRACT_CASE("behind a stopped first waiter: a permit that is not the oldest dies") {
  need_waiters_on_processes();
  need(subject().traits->permits, "permits");
  const Request r = request("k", Mode::permit, 2);
  const auto again = [&r] {
    Request other = r;
    other.owner = Owner::random();
    return other;
  };
  const auto oldest = store.open({});
  auto newest = store.open({});
  const auto one = store.open({}), two = store.open({});
  const Granted lasting = take(*oldest, again());
  take(*newest, again());
  const auto stopped = in_queue(*one, again()), next = in_queue(*two, again());
  newest.reset();
  CHECK(comes_within(*next, 15s));
  CHECK(kept(oldest->renew(lasting.lease, 60s)));
}

CONTRACT_CASE("behind a stopped first waiter: a lease ends") {
  need_waiters_on_processes();
  need(subject().traits->detached, "detached leases");
  const auto holder = store.open({}), one = store.open({}), two = store.open({});
  take(*holder, detached(request("k"), ending_ttl()));
  const auto stopped = in_queue(*one, request("k")), next = in_queue(*two, request("k"));
  pass(ending_ttl());
  CHECK(comes_within(*next, 15s));
}
