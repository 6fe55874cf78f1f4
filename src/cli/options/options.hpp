// SPDX-License-Identifier: Apache-2.0
// The command line, its environment variables and the configuration files.
//
// Long names must be given in full, so that no script breaks when an option is added. Text is kept
// as views into argv and the environment, which live as long as the process.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "bench/scenario.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/lease.hpp"
#include "run/plan.hpp"

namespace dlock::cli {

enum class Verb { run, acquire, renew, release, check, fence, inspect, bench, config };

using Verbs = unsigned;  // a set of Verb
constexpr Verbs bit(Verb v) noexcept { return 1U << static_cast<unsigned>(v); }

enum class Output { text, json, env, csv };

struct Option;

// The source of an option's value.
enum class Source : std::uint8_t { flag, environment, config };
struct Given {
  const Option* option;
  std::string_view value;
  Source source;
  std::string_view where{};    // if from a file: "/etc/dlock/config.toml:3"
  unsigned layer = 0;          // if from a file: the priority of the table there; 0 is the highest
  bool off = false;            // a switch that was set to "no"
  std::string_view backend{};  // for a secret in a file: the backend of its table
};

// The options of every command.
struct CommonOptions : run::OutputOptions {
  Verb verb{};
  bool help = false, all_help = false;  // all_help: --help=all was given
  std::string_view config, profile;

  std::vector<std::string_view> keys;       // in the given order
  std::optional<std::string_view> operand;  // the argument that no option takes: SEQUENCER or K

  Output output = Output::text;
  bool json = false, csv = false;   // whether `output` is json or csv, once all sources are read
  std::string_view foreign_output;  // --output named a form of another command (option_rules.cpp)

  // The line that requires a backend (require-backend), such as "/etc/dlock/config.toml:1"; empty:
  // no file has such a line.
  std::string_view backend_required_by;

  std::vector<Given> values;  // in the order in which dlock read them
};

// Options of the commands that use a store.
struct StoreOptions : virtual CommonOptions {
  std::string_view backend = "file:", recipe;
  std::optional<Duration> op_timeout;
  Duration connect_timeout{5'000'000};
  Duration ttl{30'000'000};
  std::string_view password_file, auth_file, tls_ca, tls_cert, tls_key, tls_name;
  bool tls_insecure = false;
};

// Options that name a grant: all options of renew and check, and some options of other commands.
struct GrantOptions : virtual StoreOptions {
  std::optional<std::string_view> handle;
  std::optional<FencingToken> token;
};

// The options of the commands that acquire a lock, run and acquire; fence has some of them.
// RunOptions::command has the words after the first `--`; null: there was no `--`.
struct TakingOptions : virtual GrantOptions, run::RunOptions {
  Mode mode = Mode::exclusive;
  unsigned limit = UINT_MAX;
  Duration lock_delay{};
  std::string_view reason;
  std::optional<Duration> kill_after;
  std::optional<int> watch_pid;
};

// The options of single commands. A command sees its own and the shared options.
struct RunCommandOptions : virtual TakingOptions {
  std::optional<std::string_view> shell_command;
  bool no_env = false, explain = false;
  bool publish_command = false, no_reentrant = false;
};

struct AcquireOptions : virtual TakingOptions {
  bool hold = false, keep = false;
  Duration max_hold{std::chrono::hours{1}};
  // true: print lines for eval (say.hpp). It is set early, even if the rest of the command line is
  // wrong.
  bool env_requested = false;
};

struct ReleaseOptions : virtual GrantOptions {
  bool force = false, yes = false, if_held = false, revoke = false;
  std::optional<Duration> revoke_wait;
};

struct FenceOptions : virtual TakingOptions {
  std::string_view state;
};

struct InspectOptions : virtual StoreOptions {
  bool no_heading = false, held = false, stale = false, check = false, doctor = false;
  std::optional<Duration> watch;
  std::string_view columns;
  enum class Sort : std::uint8_t { key, age, waiters } sort = Sort::key;
};

struct BenchOptions : virtual StoreOptions,
                      bench::Measurement {          // if no scenario is given: uncontended, handoff
  std::vector<std::string_view> backends, recipes;  // empty: the default
  bool no_progress = false;
  std::string_view html;
};

struct ConfigOptions : virtual StoreOptions {
  bool report = false;
};

// The options of all commands, as parse() reads them.
struct Options : RunCommandOptions,
                 AcquireOptions,
                 ReleaseOptions,
                 FenceOptions,
                 InspectOptions,
                 BenchOptions,
                 ConfigOptions {};

// Returns the first row of option_table() with this name that a command of the set has; null: there
// is no such row.
const Option* find_option(std::string_view name, Verbs = ~0U) noexcept;

std::string environment_name(std::string_view option);  // "DLOCK_WAIT"

// Reads all sources and checks the result. argv[0] is the command's name. Errc::usage: the command
// line is wrong. Errc::config: the environment or a file is wrong. It does not reorder argv.
Result<void> parse(Options&, int argc, char** argv);

// Returns the DLOCK_ variables that no command reads, "DLOCK_A, DLOCK_B"; empty: there are none.
std::string unknown_variables();

// given() returns whether any source has set the option with this long name, given_by_flag()
// whether the command line has.
bool given(const CommonOptions&, std::string_view name) noexcept;
bool given_by_flag(const CommonOptions&, std::string_view name) noexcept;

// Returns the option's name for messages, by the source of its value: "--wait", "DLOCK_WAIT" or
// "/etc/dlock/config.toml:3: wait".
std::string display_name(const CommonOptions&, std::string_view name);
std::string display_name(const Given&);

// Returns the code for a wrong value of this option: usage on the command line, config elsewhere.
Errc error_code_of(const CommonOptions&, std::string_view name) noexcept;

}  // namespace dlock::cli
