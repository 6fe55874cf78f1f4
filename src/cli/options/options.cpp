// SPDX-License-Identifier: Apache-2.0
#include "cli/options/options.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <deque>
#include "cli/options/configuration.hpp"
#include "cli/options/option_table.hpp"
#include "cli/options/suggestions.hpp"
#include "cli/options/values.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

constexpr std::string_view prefix = "DLOCK_";

// Returns the value in force. The command line is read first, and later sources only fill gaps.
const Given* find(const CommonOptions& o, std::string_view name) noexcept {
  for (const Given& g : o.values)
    if (!g.off && name == g.option->name) return &g;
  return nullptr;
}

// Returns whether a source of higher priority has set this option or another option of the same
// choice.
bool decided(const Options& to, const Given& by) {
  const auto outweighs = [&](const Given& g) {
    return g.source != by.source ? g.source < by.source : g.layer < by.layer;
  };
  return std::ranges::any_of(to.values, [&](const Given& g) {
    const Choice choice = by.option->choice;
    return outweighs(g) && (g.option == by.option ||
                            (choice != Choice::none && g.option->choice == choice && !g.off));
  });
}

// Sets an option from a variable or file, where a switch may be "no".
Result<void> set_from(Options& to, Given given) {
  if (decided(to, given)) return {};
  if (!given.option->argument) {
    TRY(is_on, parse_switch(given.value));
    given.off = !is_on;
  }
  if (!given.off) TRY_VOID(given.option->set(to, given.value));
  to.values.push_back(given);
  return {};
}

bool of_an_option(std::string_view variable) {
  const auto table = option_table();
  return std::ranges::any_of(table, [&](const Option& o) {
    return o.has_variable && environment_name(o.name) == variable;
  });
}

struct Variable {
  std::string_view name, value;
};

// Returns whether no option has this variable. Such a variable is an error, because a misspelt name
// must not lead to the wrong store. Exceptions are the variables of jobs, passwords and tests, and
// the variables that Kubernetes sets for a service named dlock.
bool is_unknown(const Variable& v) {
  constexpr std::string_view own[] = {"PASSWORD", "SENTINEL_PASSWORD",
                                      "HELD",     "KEY",
                                      "TOKEN",    "SEQUENCER",
                                      "HANDLE",   "TTL_MS",
                                      "SLOT",     "GRANTS",
                                      "RUNS"};
  const std::string_view rest = v.name.substr(prefix.size());
  const bool of_kubernetes = v.name.ends_with("_SERVICE_HOST") ||
                             v.name.find("_PORT") != v.name.npos || v.value.starts_with("tcp://");
  return !of_kubernetes && !rest.starts_with("TEST_") &&
         std::ranges::find(own, rest) == std::end(own) && !of_an_option(v.name);
}

// Call it for a variable that is_unknown(). Returns whether there is an option of this name; then
// only the command line can set that option.
bool is_fixed(const Variable& v) {
  const auto table = option_table();
  return std::ranges::any_of(table,
                             [&](const Option& o) { return environment_name(o.name) == v.name; });
}

// Returns the environment's variables that begin with DLOCK_.
std::vector<Variable> variables() {
  std::vector<Variable> all;
  for (char** e = ::environ; *e; ++e) {
    const std::string_view text = *e, name = text.substr(0, text.find('='));
    if (name.starts_with(prefix))
      all.push_back({name, text.substr(std::min(name.size() + 1, text.size()))});
  }
  return all;
}

Result<void> from_environment(Options& to) {
  const auto all = variables();
  if (all.empty()) return {};  // the usual case; this saves half of the parsing time
  for (const Option& o : option_table()) {
    if (!reads(o, to.verb)) continue;
    const std::string name = environment_name(o.name);
    const auto set = std::ranges::find(all, name, &Variable::name);
    if (set == all.end() || decided(to, {&o, set->value, Source::environment})) continue;
    // A variable that is set but empty is an error, because it must not lead to another store than
    // intended.
    if (set->value.empty())
      return fail(Errc::config, "{}: is set but empty; unset it or give it a value", name);
    if (const auto done = set_from(to, {&o, set->value, Source::environment}); !done)
      return fail(Errc::config, "{}: {}", name, done.error().message);
  }
  for (const Variable& v : all) {
    const std::string_view rest = v.name.substr(prefix.size());
    if (const std::string meant = is_unknown(v) ? meant_variable(rest, to.verb) : "";
        !meant.empty())
      return fail(Errc::config, "{}: there is no such variable; did you mean {}{}?",
                  printable(v.name), prefix, meant);
  }
  return {};
}

Result<void> from_configuration(Options& to) {
  // Several rows can share a name, each for other commands (bench has its own --backend).
  const auto settable = [](std::string_view name, Verb verb) -> const Option* {
    for (const Option& o : option_table())
      if (name == o.name && reads(o, verb)) return &o;
    return nullptr;
  };
  // Options keep views into the entries, so the entries must live as long as the process.
  static auto* const kept = new std::deque<std::vector<Entry>>;
  TRY(read, read_configuration(to));
  const std::vector<Entry>& entries = kept->emplace_back(std::move(read));
  for (const Entry& e : entries)
    to.env_requested |= to.verb == Verb::acquire && e.name == "output" && e.value == "env";
  for (const Entry& e : entries) {  // the entries are in order of priority
    const Option* o = settable(e.name, to.verb);
    const auto wrong = [&](std::string_view why) {
      return fail(Errc::config, "{}: {}: {}", e.where, e.name, why);
    };
    if (e.name == "require-backend") {  // not an option: no other source can undo it
      const auto is_on = parse_switch(e.value);
      if (!is_on) return wrong(is_on.error().message);
      if (*is_on && to.backend_required_by.empty()) to.backend_required_by = e.where;
      continue;
    }
    if (e.name == "config" || e.name == "profile")
      return wrong("cannot be set in a configuration file");
    if (!o && settable(e.name, Verb::config)) continue;  // an option of another command
    if (!o)
      return wrong(find_option(e.name) ? "this option cannot be in a configuration file"
                                       : "there is no such option");
    Given given{.option = o,
                .value = e.value,
                .source = Source::config,
                .where = e.where,
                .layer = e.layer,
                .backend = e.backend};
    if (is_secret(e.name)) to.values.push_back(given);  // it is judged when the backend is known
    else if (const auto done = set_from(to, given); !done) return wrong(done.error().message);
  }
  return {};
}

}  // namespace

const Option* find_option(std::string_view name, Verbs verbs) noexcept {
  for (const Option& o : option_table())
    if ((o.verbs & verbs) && name == o.name) return &o;
  return nullptr;
}

std::string environment_name(std::string_view option) {
  std::string text(prefix);
  for (const char c : option)
    text += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

std::string unknown_variables() {
  std::string text;
  for (const Variable& v : variables())
    if (is_unknown(v))
      add_part(text, printable(v.name) + (is_fixed(v) ? " (cannot be set by a variable)"
                                                      : " (no option has this name)"));
  return text;
}

bool given_by_flag(const CommonOptions& o, std::string_view name) noexcept {
  const Given* g = find(o, name);
  return g && g->source == Source::flag;
}
bool given(const CommonOptions& o, std::string_view name) noexcept {
  return find(o, name) != nullptr;
}

std::string display_name(const CommonOptions& o, std::string_view name) {
  const Given* g = find(o, name);
  return g ? display_name(*g) : fmt::format("--{}", name);
}
std::string display_name(const Given& g) {
  switch (g.source) {
    case Source::environment: return environment_name(g.option->name);
    case Source::config: return fmt::format("{}: {}", g.where, g.option->name);
    case Source::flag: break;
  }
  return fmt::format("--{}", g.option->name);
}

Errc error_code_of(const CommonOptions& o, std::string_view name) noexcept {
  const Given* g = find(o, name);
  return g && g->source != Source::flag ? Errc::config : Errc::usage;
}

Result<void> parse(Options& to, int argc, char** argv) {
  auto done = read_arguments(to, argc, argv);
  if (done && to.help) return done;
  if (done) done = operand_as_key(to);
  if (done) done = from_environment(to);
  // acquire reads the files even after an error, because a file may choose output `env`. Then dlock
  // must report the error to the shell's eval, too.
  if (done || to.verb == Verb::acquire)
    if (auto files = from_configuration(to); done) done = std::move(files);
  if (done) done = choose_output(to);
  if (done) done = check_rules(to);
  if (done) to.env_requested = to.output == Output::env;
  return done;
}

}  // namespace dlock::cli
