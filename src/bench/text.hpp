// SPDX-License-Identifier: Apache-2.0
// Formatted numbers.
#pragma once
#include <string>
#include "bench/histogram.hpp"

namespace dlock::bench {

// "41 210", "590", "3.4": three digits or more, thousands apart
std::string grouped(double number);
std::string short_time(Nanoseconds n);  // "92us", "1.21ms", "4.50s": three digits
std::string ratio(double r);            // "4.2", "13", "1.0"

}  // namespace dlock::bench
