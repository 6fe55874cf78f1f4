// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "verdict.hpp"

namespace dlock::faults {

std::string head();                        // of a markdown table
std::string line(const Row&);              // one row
std::string sum(const std::vector<Row>&);  // the last row, and sentences below the table
std::string json(const std::vector<Row>&);

}  // namespace dlock::faults
