// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace dlock::cli {

// "redis://localhost:6379" for "localhost:6379": the probable URL if only a host and a port are
// given, by the usual ports of the services. Empty: other text.
std::string proposed_url(std::string_view text);

}  // namespace dlock::cli
