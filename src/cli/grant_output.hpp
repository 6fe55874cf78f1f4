// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include "cli/options.hpp"
#include "cli/store.hpp"

namespace dlock::cli {

// What acquire prints: the handle alone, one JSON object, or lines for the eval of a shell; each with its newline.
std::string text_of_grant(Output, const Lease&, const Store&, Duration ttl);

// `text` as one word of sh.
std::string shell_quoted(std::string_view text);

std::string_view mode_name(Mode) noexcept;  // "exclusive", "shared", "permit"

}  // namespace dlock::cli
