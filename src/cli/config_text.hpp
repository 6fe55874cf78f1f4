// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "cli/options.hpp"

namespace dlock::cli {

// --show-config: every option with its value and where that comes from, as TOML; what stands in comments is a default or cannot be in a file.
// Passwords in URLs are redacted; no secret file is read.
std::string config_text(const Options&);

// --debug-report: what helps to understand a report of a bug, without secrets. Asks no store.
std::string debug_report(const Options&);

}  // namespace dlock::cli
