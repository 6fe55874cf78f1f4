// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace dlock::cli {

std::string_view version() noexcept;  // "0.1.0"

// dlock --version: version and commit, backends and recipes (built in or not), linked libraries.
std::string version_text();
std::string version_json();  // the same as one object

}  // namespace dlock::cli
