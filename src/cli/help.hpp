// SPDX-License-Identifier: Apache-2.0
// Everything dlock says about itself, from the tables of verbs, options, exit statuses and backends.
#pragma once
#include <string>
#include "cli/verbs.hpp"

namespace dlock::cli {

std::string general_help();   // dlock --help
std::string verb_help(Verb);  // dlock VERB --help
std::string short_usage();    // what a dlock without arguments answers
std::string version_text();   // dlock --version: this version, its backends and recipes, and what could be built in

}  // namespace dlock::cli
