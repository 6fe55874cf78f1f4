// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "cli/command.hpp"
#include "cli/grant.hpp"
#include "cli/options/suggestions.hpp"
#include "cli/options/verbs.hpp"
#include "cli/say.hpp"
#include "cli/secrets.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

run::Outcome failed(const Error& e) {
  say(e.message);
  return ended(exit_status(e.code));
}

run::Outcome printed(const std::string& text) {
  const auto done = print(text);
  return done ? ended(status_ok) : failed(done.error());
}

// `help`: the user may also have meant the name of a manual page.
run::Outcome unknown_verb(std::string_view name, bool help = false) {
  std::string message;
  // Names that other programs use for our commands.
  constexpr std::pair<std::string_view, std::string_view> foreign_commands[] = {
      {"version", "--version"},
      {"list", "inspect"},
      {"ls", "inspect"},
      {"status", "inspect"},
      {"doctor", "inspect --doctor"}};
  const auto known =
      std::ranges::find_if(foreign_commands, [&](const auto& e) { return e.first == name; });
  if (known != std::end(foreign_commands)) {
    message = fmt::format("unknown command {}; did you mean {}?", quoted(name), known->second);
  } else if (name.starts_with('-')) {
    message = fmt::format("{}: the command comes first: dlock COMMAND [OPTION...]", quoted(name));
  } else {
    std::vector<std::string_view> names;
    for (const VerbInfo& v : verbs()) names.push_back(v.name);
    if (help)
      for (const ManualPage& p : manual_pages()) names.push_back(p.name);
    const std::string_view hint = nearest(name, names);
    message = fmt::format("unknown command {}{}{}", help ? "or page " : "", quoted(name),
                          hint.empty() ? "" : fmt::format("; did you mean {}?", hint));
  }
  say(fmt::format("{} (dlock --help lists the commands)", message));
  return ended(status_usage);
}

bool wants_help(std::string_view word) noexcept { return word == "-h" || word == "--help"; }
bool wants_version(std::string_view word) noexcept { return word == "-V" || word == "--version"; }

// Returns the form of output that the words after `dlock --version` choose, such as `--output json`
// or `--json`; nothing if they mean something else.
std::optional<Output> version_form(char** words) {
  const std::string_view first = words[0], second = words[1] ? words[1] : "";
  const bool two = first == "--output";
  if (words[1] && (!two || words[2])) return std::nullopt;
  const std::string_view form = first == "--json" || first == "-J" ? "json"
                                : first.starts_with("--output=")   ? first.substr(9)
                                : two                              ? second
                                                                   : "";
  if (form == "json") return Output::json;
  if (form == "text") return Output::text;
  return std::nullopt;
}

// Answers `dlock help`, `--help`, `-h`, `version`, `--version` and `-V`. An option of a single
// letter must be the only word: in `dlock -h db1` the user means a host, as with redis-cli. Help
// with status 0 would hide the mistake.
run::Outcome about_itself(int argc, char** argv) {
  const std::string_view name = argv[1];
  if (name == "help" && argc == 3) {
    const std::string_view word = argv[2];
    if (const auto verb = find_verb(word)) return printed(verb_help(*verb));
    for (const ManualPage& p : manual_pages())
      if (p.name == word) return printed(std::string{p.text});
    return unknown_verb(word, true);
  }
  if (argc == 2) return printed(wants_version(name) ? version_text() : general_help());
  if (name == "--version")
    if (const auto form = version_form(argv + 2); form)
      return printed(*form == Output::json ? version_json() : version_text());
  const std::string_view instead = name == "-h"   ? "; did you mean --help?"
                                   : name == "-V" ? "; did you mean --version?"
                                                  : "";
  return failed({Errc::usage, fmt::format("{}: unexpected argument {}{}", name,
                                          quoted(argv[name == "help" ? 3 : 2]), instead)});
}

Result<run::Outcome> dispatch(const Options& o) {
  if (o.explain || (o.verb != Verb::run && o.verb != Verb::acquire && o.verb != Verb::fence))
    fill_closed_descriptors();
  switch (o.verb) {
    case Verb::run: return command_run(o);
    case Verb::acquire: return command_acquire(o);
    case Verb::renew: return command_renew(o);
    case Verb::release: return command_release(o);
    case Verb::check: return command_check(o);
    case Verb::fence: return command_fence(o);
    case Verb::inspect: return command_inspect(o);
    case Verb::bench: return command_bench(o);
    case Verb::config: break;
  }
  return command_config(o);
}

run::Outcome command(int argc, char** argv, Options& options) {
  if (argc < 2) {
    print_on_stderr(short_usage());
    return ended(status_usage);
  }
  const std::string_view name = argv[1];
  if (name == "help" || wants_help(name) || wants_version(name)) return about_itself(argc, argv);
  const auto verb = find_verb(name);
  if (!verb) return unknown_verb(name);
  if (argc == 3 && wants_help(argv[2])) return printed(verb_help(*verb));
  if (argc == 3 && wants_version(argv[2])) return printed(version_text());

  options.verb = *verb;
  options.env_requested &= *verb == Verb::acquire;
  const auto parsed = parse(options, argc - 1, argv + 1);
  if (options.env_requested) fail_closed_on_signals();
  if (!parsed) return failed(parsed.error());
  if (options.help) return printed(options.all_help ? full_help(*verb) : verb_help(*verb));
  if (options.log_json) say_as_json();
  if (const auto unknown = unknown_variables(); !unknown.empty() && !options.quiet)
    say_warning(fmt::format("ignored: {}", unknown));
  const auto outcome = dispatch(options);
  if (options.json)
    if (const auto done = print(json_of_answer(options, outcome)); !done)
      return failed(done.error());
  const run::Outcome end = outcome ? *outcome : failed(outcome.error());
  // Perhaps dlock sent no secret, because the secrets in the files are for another server.
  if (!end.by_signal && end.value == status_denied && options.verbosity == 0)
    if (const std::string text = unused_secrets(options); !text.empty()) say_warning(text);
  return end;
}

}  // namespace

run::Outcome command_line(int argc, char** argv) {
  Options options;
  options.env_requested = requests_env(argc, argv);
  if (options.env_requested) fail_closed_on_signals();
  run::Outcome outcome;
  try {
    outcome = command(argc, argv, options);
  } catch (const std::exception& e) {
    const Error error = unexpected(e);
    say(error.message);
    outcome = ended(exit_status(error.code));
  }
  if (options.env_requested) fail_closed(outcome);
  return outcome;
}

}  // namespace dlock::cli
