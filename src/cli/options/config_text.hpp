// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "cli/options/options.hpp"

namespace dlock::cli {

// Every option that can be in a file, with its value and source, as TOML; comments show defaults.
// Passwords in URLs are redacted; no secret file is read.
std::string config_text(const Options&);

// The same with information for a bug report, without secrets. Sends no request to a store.
std::string debug_report(const Options&);

}  // namespace dlock::cli
