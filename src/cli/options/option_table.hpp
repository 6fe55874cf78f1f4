// SPDX-License-Identifier: Apache-2.0
// One table of options: parsing, --help, DLOCK_<NAME>, configuration files and completion come from
// it.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include "cli/options/options.hpp"

namespace dlock::cli {

// Sets of verbs, for the tables of options.
namespace sets {
constexpr Verbs run = bit(Verb::run), acquire = bit(Verb::acquire), renew = bit(Verb::renew),
                release = bit(Verb::release), check = bit(Verb::check), fence = bit(Verb::fence),
                inspect = bit(Verb::inspect), benching = bit(Verb::bench),
                config = bit(Verb::config);
constexpr Verbs taking = run | acquire, jobs = run | fence,
                keyed = taking | renew | release | check, stores = keyed | inspect,
                with_backend = stores | benching | config, everywhere = with_backend | fence;
}  // namespace sets

enum class Group : std::uint8_t { common, subject, taking, job, result };

// Options of one choice: one of them on the command line overrides the environment twins of all.
enum class Choice : std::uint8_t { none, waiting, mode, verbosity, format, length };

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

// Each row given to CLI11 costs a comparison with every row before it, so it gets only those that
// the words can mean. A test gives it all of them: no name may occur twice.
enum class Rows { named, all };

// argv[0] is the verb. Options before the first `--` and, for run and fence, the command after it,
// read by CLI11. Errc::usage for the first error. Does not reorder argv.
Result<void> read_arguments(Options&, int argc, char** argv, Rows = Rows::named);

std::string_view cli11_version() noexcept;

// What several options say together (option_rules.cpp). Parts of parse(), but for the setter.

// The only word of a command is its key, as if --key were before it; that of check is a sequencer,
// unless a token or a handle says what is checked. (The key of inspect may be a pattern, and stays
// Options::operand.)
Result<void> operand_as_key(Options&);

// Contradictions, and what is missing.
Result<void> check_rules(const Options&);

// Setter of --output. Errc::usage: no command has this form.
Result<void> set_output(Options&, std::string_view);

// After all sources were read: Options::output and its switches say the same. Errc::usage: on the
// command line they contradict each other, or the form is that of another command. A variable or
// file is shared by several commands, so there such a form is ignored.
Result<void> choose_output(Options&);

}  // namespace dlock::cli
