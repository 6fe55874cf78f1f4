// SPDX-License-Identifier: Apache-2.0
// The commands, and what dlock prints about itself: help, version, pages of the manual.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

struct VerbInfo {
  Verb verb;
  std::string_view name;
  std::string_view usage;    // what follows the name
  std::string_view summary;  // for the list of commands
  std::string_view about;    // a paragraph for its --help
  std::string_view example;  // for its --help
};

std::span<const VerbInfo> verbs() noexcept;  // in the order of enum Verb
const VerbInfo& info(Verb) noexcept;
std::optional<Verb> find_verb(std::string_view name) noexcept;

std::string general_help();   // dlock --help
std::string verb_help(Verb);  // dlock VERB --help: the everyday options and an example
std::string full_help(Verb);  // dlock VERB --help=all: every option and its variable
std::string short_usage();    // printed by dlock without arguments

std::string_view version() noexcept;  // "1.0.0"

// dlock --version: version and commit, backends and recipes (also those not built in), libraries.
std::string version_text();
std::string version_json();  // the same as one JSON object

struct ManualPage {
  std::string_view name;  // "redis" for dlock-redis(7)
  std::string_view text;
};

std::span<const ManualPage> manual_pages() noexcept;

}  // namespace dlock::cli
