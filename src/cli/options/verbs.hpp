// SPDX-License-Identifier: Apache-2.0
// The verbs, and the texts of dlock about itself: help, version, pages of the manual.
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
  std::string_view summary;  // for the list of verbs
  std::string_view about;    // a paragraph for its --help
  std::string_view example;  // one line for its --help
};

std::span<const VerbInfo> verbs() noexcept;  // in the order of enum Verb
const VerbInfo& info(Verb) noexcept;
std::optional<Verb> find_verb(std::string_view name) noexcept;

std::string general_help();   // dlock --help
std::string verb_help(Verb);  // dlock VERB --help: the options of every day and an example
std::string full_help(Verb);  // dlock VERB --help=all: every option and its variable
std::string short_usage();    // printed by dlock without arguments

std::string_view version() noexcept;  // "1.0.0"

// dlock --version: version and commit, backends and recipes (built in or not), linked libraries.
std::string version_text();
std::string version_json();  // the same as one object

struct ManualPage {
  std::string_view name;  // "redis", of dlock-redis(7)
  std::string_view text;
};

std::span<const ManualPage> manual_pages() noexcept;

}  // namespace dlock::cli
