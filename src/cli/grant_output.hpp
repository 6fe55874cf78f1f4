// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>
#include "cli/options/options.hpp"
#include "cli/store.hpp"

namespace dlock::cli {

// The output of acquire: the handle alone, one JSON object, or lines for the eval of a shell; each
// with its newline. The leases in the order of the keys. `keeper`: where the process that keeps the
// lock listens; empty: the store alone is needed.
std::string text_of_grant(Output, const std::vector<Lease>&, const Store&, Duration ttl,
                          const std::string& keeper);

// `text` as one word of sh.
std::string shell_quoted(std::string_view text);

std::string_view mode_name(Mode) noexcept;  // "exclusive", "shared", "permit"

}  // namespace dlock::cli
