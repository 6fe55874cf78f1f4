// SPDX-License-Identifier: Apache-2.0
// The one table of options. Parsing, --help, DLOCK_<NAME>, configuration files and completion are
// made from it.
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

// Options of the same choice exclude each other. If one of them is on the command line, it
// overrides the variables of all of them.
enum class Choice : std::uint8_t { none, waiting, mode, verbosity, format, length };

struct Option {
  const char* name;  // "wait" for --wait
  char letter;       // 'w' for -w; 0: none
  // "D": as in --wait=D; "[D]": the value may be missing; "=D": a value is given only after "=";
  // null: the option is a switch and has no value.
  const char* argument;
  Verbs verbs;
  Group group;
  std::string_view help;
  // The error names the value and what is allowed, but not the option.
  Result<void> (*set)(Options&, std::string_view);
  bool has_variable = false;        // read from DLOCK_WAIT when it is not on the command line
  std::string_view default_text{};  // the default, in words; empty: none, or false
  Choice choice = Choice::none;
};

std::span<const Option> option_table() noexcept;

// Returns whether the command accepts the option on its command line.
inline bool belongs(const Option& o, Verb v) noexcept { return (o.verbs & bit(v)) != 0; }

// Returns whether the command reads the option from variables and files. `config` reads the options
// of all commands, each name once.
bool reads(const Option&, Verb) noexcept;

// Which rows CLI11 gets. CLI11 compares each row with all rows before it. To save this time it gets
// only the rows that the command line may name. A test gives it all rows, to show that no name
// occurs twice.
enum class Rows { named, all };

// Reads the options before the first `--` with CLI11 and, for run and fence, the command after the
// `--`. argv[0] is the command. Returns the first error, Errc::usage. It does not reorder argv.
Result<void> read_arguments(Options&, int argc, char** argv, Rows = Rows::named);

std::string_view cli11_version() noexcept;

// Rules between options (option_rules.cpp). parse() calls these functions, except set_output().

// Treats the only word that is not an option (Options::operand) as the key, as if --key were before
// it. For `check` the word is a sequencer, unless a token or a handle says what to check. `inspect`
// keeps the word as Options::operand, because it may be a pattern.
Result<void> operand_as_key(Options&);

// Refuses contradictions and missing options.
Result<void> check_rules(const Options&);

// The setter of --output. Errc::usage: no command has this form.
Result<void> set_output(Options&, std::string_view);

// Makes Options::output and its switches agree, when all sources have been read. Errc::usage: they
// contradict each other on the command line, or the form belongs to another command. A form of
// another command that comes from a variable or a file is ignored, because commands share variables
// and files.
Result<void> choose_output(Options&);

}  // namespace dlock::cli
