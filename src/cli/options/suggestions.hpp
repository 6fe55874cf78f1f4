// SPDX-License-Identifier: Apache-2.0
// What was probably meant by a word that dlock does not know.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

// The one of `names` that `wrong` was probably meant to be: at most two typing errors away, or the
// only one that it begins. Empty: none.
std::string_view nearest(std::string_view wrong, std::span<const std::string_view> names);

Error unknown_long(Verb, std::string_view name);  // without the dashes
Error unknown_letter(Verb, char letter);

// Of `-key` for `--key`: the letters of a long name are not read as options.
std::optional<Error> long_with_one_dash(Verb, std::string_view word);

// "WAIT" for DLOCK_WIAT, of which `name` is what follows DLOCK_. Empty: none resembles it.
std::string meant_variable(std::string_view name, Verb);

// "redis://localhost:6379" for "localhost:6379": the probable URL if only a host and a port are
// given, by the usual ports of the services. Empty: other text.
std::string proposed_url(std::string_view text);

}  // namespace dlock::cli
