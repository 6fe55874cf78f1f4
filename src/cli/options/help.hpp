// SPDX-License-Identifier: Apache-2.0
// The help texts, made from the tables of verbs, options, exit statuses and backends.
#pragma once
#include <string>
#include "cli/options/verbs.hpp"

namespace dlock::cli {

std::string general_help();   // dlock --help
std::string verb_help(Verb);  // dlock VERB --help: the options of every day and an example
std::string full_help(Verb);  // dlock VERB --help=all: every option and its variable
std::string short_usage();    // printed by dlock without arguments

}  // namespace dlock::cli
