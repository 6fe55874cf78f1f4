// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>
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

}  // namespace dlock::cli
