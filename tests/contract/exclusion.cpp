// SPDX-License-Identifier: Apache-2.0
// Which contenders hold together, and in which order they are granted.
#include <algorithm>
#include <future>
#include <mutex>
#include <thread>
#include "contract/helpers.hpp"

using namespace dlock;
using namespace dlock::contract;

CONTRACT_CASE("one holder at a time, tokens strictly rising") {
  constexpr int contenders = 4, grants = 25;
  struct {
    int inside = 0, overlaps = 0, inversions = 0, count = 0;  // protected by the lock alone
    FencingToken last = 0;
  } seen;
  const auto contend = [&] {
    const auto backend = store.open({});
    for (int i = 0; i < grants; ++i) {
      const Granted g = take(*backend, request("k"));
      seen.overlaps += seen.inside++ != 0;
      seen.inversions += g.lease.token <= seen.last;
      seen.last = g.lease.token;
      ++seen.count;
      std::this_thread::yield();
      --seen.inside;
      if (backend->release(g.lease).value() != Released::yes)
        throw std::runtime_error("was not held");
    }
  };
  std::vector<std::future<void>> all;
  for (int i = 0; i < contenders; ++i) all.push_back(std::async(std::launch::async, contend));
  for (auto& one : all) one.get();
  CHECK(seen.overlaps == 0);
  CHECK(seen.inversions == 0);
  CHECK(seen.count == contenders * grants);
}

CONTRACT_CASE("in order of arrival") {
  need(subject().traits->fifo, "FIFO order");
  constexpr int contenders = 6;
  const auto holder = store.open({});
  const Granted first = take(*holder, request("k"));
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < contenders; ++i) {
    backends.push_back(store.open({}));
    waiters.push_back(in_queue(*backends.back(), request("k")));
  }
  std::vector<int> order;
  std::vector<std::future<void>> all;
  for (int i = contenders; i-- > 0;)  // the last one polls first
    all.push_back(std::async(std::launch::async, [&, i] {
      const Granted g = take(*waiters[static_cast<std::size_t>(i)]);
      order.push_back(i);
      backends[static_cast<std::size_t>(i)]->release(g.lease).value();
    }));
  holder->release(first.lease).value();
  for (auto& one : all) one.get();
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5});
}

CONTRACT_CASE("shared holders hold together, an exclusive one alone") {
  need(subject().traits->shared, "shared mode");
  const auto a = store.open({}), b = store.open({}), c = store.open({});
  const Granted one = take(*a, request("k", Mode::shared)),
                two = take(*b, request("k", Mode::shared));
  CHECK(one.lease.token != two.lease.token);
  CHECK_FALSE(free_now(*c, request("k")));
  auto writer = in_queue(*c, request("k"));
  a->release(one.lease).value();
  CHECK(std::holds_alternative<Waiting>(step(*writer, 0s)));
  b->release(two.lease).value();
  const Granted alone = take(*writer);
  CHECK(alone.lease.token > std::max(one.lease.token, two.lease.token));
  CHECK_FALSE(free_now(*a, request("k", Mode::shared)));
  CHECK_FALSE(free_now(*b, request("k")));
  c->release(alone.lease).value();
  CHECK(free_now(*a, request("k", Mode::shared)));
}

CONTRACT_CASE("readers do not pass a writer that came first") {
  need(subject().traits->shared && subject().traits->fifo, "shared mode in FIFO order");
  const auto a = store.open({}), b = store.open({}), c = store.open({});
  const Granted reader = take(*a, request("k", Mode::shared));
  auto writer = in_queue(*b, request("k"));
  auto late = in_queue(*c, request("k", Mode::shared));
  a->release(reader.lease).value();
  const Granted w = take(*writer);
  CHECK(std::holds_alternative<Waiting>(step(*late, 0s)));
  b->release(w.lease).value();
  c->release(take(*late).lease).value();
}

CONTRACT_CASE("permits: up to the limit, each with its own slot") {
  need(subject().traits->permits, "permits");
  const auto a = store.open({}), b = store.open({}), c = store.open({});
  const Request r = request("k", Mode::permit, 2);
  const auto ask = [&] {
    Request mine = r;
    mine.owner = Owner::random();
    return mine;
  };
  const Granted one = take(*a, ask()), two = take(*b, ask());
  CHECK(std::minmax(one.lease.slot, two.lease.slot) == std::minmax(0u, 1u));
  CHECK_FALSE(free_now(*c, ask()));
  auto third = in_queue(*c, ask());
  a->release(one.lease).value();
  const Granted three = take(*third);
  CHECK(three.lease.slot == one.lease.slot);
  CHECK(three.lease.token > two.lease.token);
}

CONTRACT_CASE("readers and permits hold together, and all count toward the limit") {
  need(subject().traits->permits && subject().traits->shared, "permits beside readers");
  const auto a = store.open({}), b = store.open({}), c = store.open({}), d = store.open({});
  const Granted permit = take(*a, request("k", Mode::permit, 2));
  const Granted reader = take(*b, request("k", Mode::shared));
  const auto full = in_queue(*c, request("k", Mode::permit, 2));
  a->release(permit.lease).value();
  const Granted next = take(*full);
  const auto writer = in_queue(*d, request("k"));
  b->release(reader.lease).value();
  CHECK(std::holds_alternative<Waiting>(writer->poll({}).value()));
  c->release(next.lease).value();
  d->release(take(*writer).lease).value();
}

CONTRACT_CASE("keys are independent, and one Backend can hold many") {
  const auto backend = store.open({}), other = store.open({});
  const Granted a = take(*backend, request("a")), b = take(*backend, request("b"));
  CHECK_FALSE(free_now(*other, request("a")));
  CHECK_FALSE(free_now(*other, request("b")));
  auto wa = in_queue(*other, request("a")), wb = in_queue(*other, request("b"));
  backend->release(b.lease).value();
  const Granted later_b = take(*wb);
  CHECK(std::holds_alternative<Waiting>(step(*wa, 0s)));
  backend->release(a.lease).value();
  const Granted later_a = take(*wa);
  CHECK(other->release(later_a.lease).value() == Released::yes);
  CHECK(other->release(later_b.lease).value() == Released::yes);
}

CONTRACT_CASE("tokens rise although every Backend closes in between") {
  FencingToken last = 0;
  for (int i = 0; i < 5; ++i) {
    const auto backend = store.open({});
    const Granted g = take(*backend, request("k"));
    CHECK(g.lease.token > last);
    last = g.lease.token;
    backend->release(g.lease).value();
  }
}
