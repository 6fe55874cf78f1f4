// SPDX-License-Identifier: Apache-2.0
#include "cli/options/options.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <utility>
#include "cli/options/arguments.hpp"
#include "cli/options/configuration.hpp"
#include "cli/options/option_rules.hpp"
#include "cli/options/option_table.hpp"
#include "cli/options/suggestions.hpp"
#include "cli/options/values.hpp"
#include "cli/options/variables.hpp"

namespace dlock::cli {
namespace {

// An option that may be in a file. Several rows can have one name, each for other commands (bench
// has its own --backend).
const Option* settable(std::string_view name, Verb verb) noexcept {
  for (const Option& o : option_table())
    if (name == o.name && reads(o, verb)) return &o;
  return nullptr;
}
// The effective value of those given: the command line is read first, later sources only fill gaps.
const Given* find(const Options& o, std::string_view name) noexcept {
  for (const Given& g : o.values)
    if (!g.off && name == g.option->name) return &g;
  return nullptr;
}

// A choice made at a higher priority is not overridden by another option of the same choice.
bool decided(const Options& to, const Given& by) {
  const auto outweighs = [&](const Given& g) {
    return g.source != by.source ? g.source < by.source : g.layer < by.layer;
  };
  return std::any_of(to.values.begin(), to.values.end(), [&](const Given& g) {
    const Choice choice = by.option->choice;
    return outweighs(g) && (g.option == by.option ||
                            (choice != Choice::none && g.option->choice == choice && !g.off));
  });
}

// The value of a twin, which for a switch may be "no".
Result<void> set_twin(Options& to, Given given) {
  if (decided(to, given)) return {};
  if (!given.option->argument) {
    TRY(is_on, parse_switch(given.value));
    given.off = !is_on;
  }
  if (!given.off)
    if (auto done = given.option->set(to, given.value); !done) return done;
  to.values.push_back(given);
  return {};
}

Result<void> from_environment(Options& to) {
  bool any = false;
  for (char** e = ::environ; *e && !any; ++e) any = std::string_view(*e).starts_with("DLOCK_");
  if (!any) return {};  // the usual case, and it saves half of the parsing time
  for (const Option& o : option_table()) {
    if (!reads(o, to.verb)) continue;
    const std::string name = environment_name(o);
    // NOLINT(concurrency-mt-unsafe): no thread exists yet
    const char* value = std::getenv(name.c_str());
    if (!value || decided(to, {&o, value, Source::environment})) continue;
    // Set and empty is an error, not "unset": it must not lead to another store than intended.
    if (!*value)
      return fail(Errc::config,
                  fmt::format("{}: is set but empty; unset it or give it a value", name));
    if (const auto done = set_twin(to, {&o, value, Source::environment}); !done)
      return fail(Errc::config, fmt::format("{}: {}", name, done.error().message));
  }
  return {};
}

Result<void> from_configuration(Options& to) {
  TRY(entries, read_configuration(to));
  for (const Entry& e : entries)
    to.env_asked |= to.verb == Verb::acquire && e.name == "output" && e.value == "env";
  for (const Entry& e : entries) {  // in order of priority
    const Option* o = settable(e.name, to.verb);
    const auto wrong = [&](std::string_view why) {
      return fail(Errc::config, fmt::format("{}: {}: {}", e.where, e.name, why));
    };
    if (e.name == "require-backend") {  // no option: no source undoes it
      const auto is_on = parse_switch(e.value);
      if (!is_on) return wrong(is_on.error().message);
      if (*is_on && to.backend_required_by.empty()) to.backend_required_by = e.where;
      continue;
    }
    if (e.name == "config" || e.name == "profile")
      return wrong("cannot be set in a configuration file");
    if (!o && settable(e.name, Verb::config)) continue;  // of another command
    if (const OldName* old = o ? nullptr : find_old_name(e.name))
      return fail(Errc::config,
                  fmt::format("{}: {}", e.where, no_longer(e.name, *old, Source::config)));
    if (!o)
      return wrong(find_option(e.name) ? "this option cannot be in a configuration file"
                                       : "there is no such option");
    if (is_secret(e.name)) {  // whether it counts is decided when the backend is known
      to.values.push_back({o, e.value, Source::config, e.where, e.layer, false, e.backend});
      continue;
    }
    if (const auto done = set_twin(to, {o, e.value, Source::config, e.where, e.layer}); !done)
      return wrong(done.error().message);
  }
  return {};
}

}  // namespace

const Option* find_option(std::string_view name, Verbs verbs) noexcept {
  for (const Option& o : option_table())
    if ((o.verbs & verbs) && name == o.name) return &o;
  return nullptr;
}

std::string environment_name(std::string_view name) {
  std::string text = "DLOCK_";
  for (const char c : name)
    text += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}
std::string environment_name(const Option& o) { return environment_name(std::string_view(o.name)); }

bool given_by_flag(const Options& o, std::string_view name) noexcept {
  const Given* g = find(o, name);
  return g && g->source == Source::flag;
}
bool given(const Options& o, std::string_view name) noexcept { return find(o, name) != nullptr; }

std::string called(const Options& o, std::string_view name) {
  const Given* g = find(o, name);
  return g ? called(*g) : fmt::format("--{}", name);
}
std::string called(const Given& g) {
  switch (g.source) {
    case Source::environment: return environment_name(*g.option);
    case Source::config: return fmt::format("{}: {}", g.where, g.option->name);
    case Source::flag: break;
  }
  return fmt::format("--{}", g.option->name);
}

Errc blame(const Options& o, std::string_view name) noexcept {
  const Given* g = find(o, name);
  return g && g->source != Source::flag ? Errc::config : Errc::usage;
}

Result<void> parse(Options& to, int argc, char** argv) {
  auto done = read_arguments(to, argc, argv);
  if (done && to.help) return done;
  if (done) done = take_word_as_key(to);
  if (done) done = from_environment(to);
  if (done) done = refuse_misspelt_variables(to.verb);
  // also of an acquire that is wrong: a file may ask for lines for eval
  if (done || to.verb == Verb::acquire)
    if (auto files = from_configuration(to); done) done = std::move(files);
  if (done) done = choose_output(to);
  if (done) done = check_rules(to);
  if (done) to.env_asked = to.output == Output::env;
  return done;
}

}  // namespace dlock::cli
