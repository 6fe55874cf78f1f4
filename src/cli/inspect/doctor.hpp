// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "cli/store.hpp"

namespace dlock::cli {

// inspect --doctor: what the backend found out about its store.
bool unfit(const std::vector<Finding>&) noexcept;
std::string text_of_findings(const std::vector<Finding>&, const OpenStore&);
std::string json_of_findings(const std::vector<Finding>&, const OpenStore&);

}  // namespace dlock::cli
