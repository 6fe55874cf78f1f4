// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include "contract/subject.hpp"
#include "support/own_clock.hpp"
#include "util/fd.hpp"

namespace dlock::contract {

using namespace std::chrono_literals;

inline constexpr Duration patient = 30s;  // longer than anything here may take on a busy machine

void note_skip(const std::string& why);

// Runs a case with its store; a feature that cannot be tested is reported.
template <class Body>
void run(Body body) {
  try {
    const auto store = subject().make_store();
    body(*store);
  } catch (const Skip& skip) { note_skip(skip.why); }
}

// A case of the contract: the body that follows has a `store` of its own.
#define CONTRACT_CASE(title) CONTRACT_CASE_OF(INTERNAL_CATCH_UNIQUE_NAME(contract_case_), title)
#define CONTRACT_CASE_OF(body, title)              \
  static void body(dlock::contract::Store& store); \
  TEST_CASE(title) { dlock::contract::run(body); } \
  static void body([[maybe_unused]] dlock::contract::Store& store)

inline void need(bool claimed, const char* what) {
  if (!claimed) throw Skip{std::string("does not claim ") + what};
}

inline Key key(std::string_view text) { return Key::parse(text).value(); }

inline Request request(const std::string& name, Mode mode = Mode::exclusive,
                       unsigned limit = UINT_MAX) {
  Request r{key(name), Owner::random()};
  r.mode = mode;
  r.limit = limit;
  r.ttl = 60s;
  r.identity = Identity::mine("contract");
  return r;
}
// So much time passes at once, for this program and its servers; in real time none does.
inline void pass(Duration d) {
  if (subject().real_time) return;
  test::machine.step_wall(d);
  test::machine.suspend(d);
}
// Of a lease that a case lets end: by pass(), however busy the machine is; or else in real time.
inline Duration ending_ttl() { return subject().real_time ? subject().shortest_ttl : 30s; }

inline Request impatient(Request r) {
  r.wait = false;
  return r;
}
inline Request detached(Request r, Duration ttl) {
  r.attached = false;
  r.ttl = ttl;
  return r;
}

// One poll; an Error is thrown as text, so that it can be used on any thread.
inline Progress step(Waiter& w, Duration slice) {
  for (const Deadline end = later(Clock::now(), patient);; ::usleep(20'000)) {
    auto answer = w.poll(slice);
    if (answer) return std::move(*answer);
    if (!subject().tries_go_unanswered || !retryable(answer.error().code) || Clock::now() >= end)
      throw std::runtime_error(answer.error().message);
  }
}

// Polls until granted; throws after `patient`.
inline Granted take(Waiter& w, Duration bound = patient) {
  for (const Deadline end = later(Clock::now(), bound); Clock::now() < end;) {
    auto p = step(w, std::chrono::duration_cast<Duration>(end - Clock::now()));
    if (auto* g = std::get_if<Granted>(&p)) return std::move(*g);
    if (std::holds_alternative<Busy>(p)) throw std::runtime_error("busy");
  }
  throw std::runtime_error("not granted in time");
}

// Takes at once; throws when it is busy.
inline Granted take(Backend& b, const Request& r) {
  auto w = b.enqueue(r);
  if (!w) throw std::runtime_error(w.error().message);
  return take(**w);
}

inline bool free_now(Backend& b, const Request& r) {
  auto w = b.enqueue(impatient(r)).value();
  auto p = step(*w, 0s);
  if (std::holds_alternative<Granted>(p)) {
    b.release(std::get<Granted>(p).lease).value();
    return true;
  }
  return false;
}

// A waiter that is queued when this returns.
inline std::unique_ptr<Waiter> in_queue(Backend& b, const Request& r) {
  auto w = b.enqueue(r).value();
  auto p = step(*w, 0s);
  if (!std::holds_alternative<Waiting>(p)) throw std::runtime_error("does not wait");
  return w;
}

inline bool kept(const Result<Renewal>& r) { return std::holds_alternative<Kept>(r.value()); }
inline bool lost(const Result<Renewal>& r) { return std::holds_alternative<Lost>(r.value()); }

// Repeats until it is true. For changes that a store may show a little later.
template <class Condition>
bool becomes(Condition condition, Duration bound = patient) {
  for (const Deadline end = later(Clock::now(), bound); Clock::now() < end;) {
    if (condition()) return true;
    ::usleep(1000);
  }
  return false;
}

class Event {
 public:
  Event() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  int fd() const { return fd_.get(); }
  void set() const {
    const std::uint64_t one = 1;
    REQUIRE(::write(fd_.get(), &one, sizeof one) == sizeof one);
  }
  bool comes() const {  // waits for it; it stays set
    pollfd p{fd_.get(), POLLIN, 0};
    return ::poll(&p, 1, static_cast<int>(patient / 1ms)) == 1;
  }

 private:
  Fd fd_;
};

}  // namespace dlock::contract
