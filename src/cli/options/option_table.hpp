// SPDX-License-Identifier: Apache-2.0
// One table of options: parsing, --help, DLOCK_<NAME>, configuration files and completion come from
// it.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

enum class Group : std::uint8_t { common, subject, taking, job, result };

// Options of one choice: one of them on the command line overrides the environment twins of all.
enum class Choice : std::uint8_t { none, waiting, mode, words, format, length };

struct Option {
  const char* name;  // "wait" for --wait
  char letter;       // 'w' for -w; 0: none
  // "D" in --wait=D; "[D]": it may be missing; "=D": only behind =; null: a switch
  const char* argument;
  Verbs verbs;
  Group group;
  std::string_view help;
  // its message names the value and what is allowed, not the option
  Result<void> (*set)(Options&, std::string_view);
  bool twin = false;          // read from DLOCK_WAIT when it is not on the command line
  std::string_view preset{};  // the default, in words; empty: none, or false
  Choice choice = Choice::none;
};

std::span<const Option> option_table() noexcept;

// On the command line.
inline bool belongs(const Option& o, Verb v) noexcept { return (o.verbs & bit(v)) != 0; }

// From variables and files. `config` reads what any command does, each name once.
bool reads(const Option&, Verb) noexcept;

}  // namespace dlock::cli
