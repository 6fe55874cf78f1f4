// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of zookeeper_prove.
#pragma once
#include <chrono>
#include <cstdint>
#include "stores/contest.hpp"
#include "support/zookeeper_client.hpp"

namespace dlock::prove {

using namespace std::chrono_literals;

inline double ms(Clock::duration d) { return seconds(d) * 1e3; }
inline std::int64_t nanos() { return Clock::now().time_since_epoch().count(); }

void cut(const char* self);               // a follower and its client are cut off together
[[noreturn]] void job(const char* file);  // of that

}  // namespace dlock::prove
