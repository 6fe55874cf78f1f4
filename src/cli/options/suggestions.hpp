// SPDX-License-Identifier: Apache-2.0
// Suggestions for words that dlock does not know.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

// Returns the name that `wrong` was probably meant to be: a name at most two typing errors away, or
// the only name that begins with `wrong`. Empty: there is none.
std::string_view nearest(std::string_view wrong, std::span<const std::string_view> names);

Error unknown_long(Verb, std::string_view name);  // `name` without the dashes
Error unknown_letter(Verb, char letter);

// Refuses `-key` and suggests `--key`, instead of reading the letters as options.
std::optional<Error> long_with_one_dash(Verb, std::string_view word);

// Returns "WAIT" for DLOCK_WIAT; `name` is the text after DLOCK_. Empty: no variable resembles it.
std::string meant_variable(std::string_view name, Verb);

// Returns the probable URL if the text is only a host and the usual port of a service:
// "redis://localhost:6379" for "localhost:6379". Empty for any other text.
std::string proposed_url(std::string_view text);

}  // namespace dlock::cli
