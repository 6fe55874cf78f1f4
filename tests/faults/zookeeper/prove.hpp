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

// The parts.
void queue();                             // requests of a free lock; wake-ups per grant, order
void killed();                            // the next grant after a killed holder
void cut(const char* self);               // a follower and its client are cut off together
[[noreturn]] void job(const char* file);  // of that

}  // namespace dlock::prove
