// SPDX-License-Identifier: Apache-2.0
// The results that the verbs print, and the words of commands that dlock proposes.
#pragma once
#include <string>
#include <string_view>
#include <vector>
#include "cli/options/options.hpp"
#include "cli/store.hpp"
#include "run/outcome.hpp"

namespace dlock::cli {

// The output of acquire: the handle alone, one JSON object, or lines for the eval of a shell; each
// with its newline. The leases in the order of the keys. `keeper`: where the process that keeps the
// lock listens; empty: the store alone is needed.
std::string text_of_grant(Output, const std::vector<Lease>&, const Store&, Duration ttl,
                          const std::string& keeper);

// `text` as one word of sh.
std::string shell_quoted(std::string_view text);

std::string_view mode_name(Mode) noexcept;  // "exclusive", "shared", "permit"

// --output json of renew, release and check, whose answer is otherwise the exit status: one object
// with the keys and "renewed", "released", "revoked" or "valid"; null: unknown, and "error" says
// why. Empty: another command, or nothing was asked (a usage or configuration error).
std::string json_of_answer(const Options&, const Result<run::Outcome>&);

// `text` as one word of sh, of characters that are safe to print.
std::string sh_word(std::string_view text);

}  // namespace dlock::cli
