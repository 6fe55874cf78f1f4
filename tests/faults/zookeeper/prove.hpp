// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of zookeeper_prove.
#pragma once
#include <fmt/format.h>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>
#include "support/prove.hpp"
#include "support/zookeeper_client.hpp"

namespace dlock::prove {

using namespace std::chrono_literals;

inline bool full = false;

inline double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }
inline std::int64_t nanos() { return Clock::now().time_since_epoch().count(); }

inline Key key(const std::string& text) { return Key::parse(text).value(); }

inline Lease wait_for_lease(Backend& b, const Request& r, Duration bound = 60s) {
  const auto w = b.enqueue(r).value();
  for (const Deadline end = Clock::now() + bound; Clock::now() < end;) {
    const auto p = w->poll(1s);
    if (!p && !retryable(p.error().code)) throw std::runtime_error(p.error().message);
    if (p && std::holds_alternative<Granted>(*p)) return std::get<Granted>(*p).lease;
  }
  throw std::runtime_error("not granted in time");
}

template <class Body>
double per_second(Duration span, Body body) {
  long n = 0;
  const Deadline began = Clock::now();
  while (Clock::now() < began + span) {
    body();
    ++n;
  }
  return static_cast<double>(n) / (ms(Clock::now() - began) / 1000);
}

// The parts.
void rate();    // uncontended, compared with the C client itself and kazoo
void queue();   // contended: requests and wake-ups per grant, order
void relist();  // a predecessor that vanishes between list and watch, with kills
void killed();  // the next grant after a killed holder
void run_time();
void hold();                              // longer than the ttl
void cut(const char* self);               // a follower and its client are cut off together
[[noreturn]] void job(const char* file);  // of that

}  // namespace dlock::prove
