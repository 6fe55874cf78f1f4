// SPDX-License-Identifier: Apache-2.0
// What the parts of zookeeper_prove have in common.
#pragma once
#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>
#include "support/zookeeper_client.hpp"

namespace dlock::prove {

using namespace std::chrono_literals;

inline bool failed = false, full = false;

inline void must(bool so, const std::string& what) {
  if (so) return;
  failed = true;
  fmt::print("NOT MET: {}\n", what);
}

inline double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }
inline std::int64_t nanos() { return Clock::now().time_since_epoch().count(); }

inline double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1))];
}

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
void rate();    // uncontended, against the C client itself and kazoo
void queue();   // contended: requests and wake-ups per grant, order
void relist();  // a predecessor that is gone between list and watch, with kills
void killed();  // the next grant after a killed holder
void run_time();
void cut(const char* self);               // a follower and its client are cut off together
[[noreturn]] void job(const char* file);  // of that

}  // namespace dlock::prove
