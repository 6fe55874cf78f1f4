// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace dlock {

// A URL that may be broken anywhere, for messages: everything that could be a password is removed,
// and rather too much.
std::string redact_broken(std::string_view text);

}  // namespace dlock
