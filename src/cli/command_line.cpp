// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <array>
#include <string>
#include <vector>
#include "cli/command.hpp"
#include "cli/config_text.hpp"
#include "cli/help.hpp"
#include "cli/nearest.hpp"
#include "cli/say.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "core/exit_status.hpp"

namespace dlock::cli {
namespace {

run::Outcome failed(const Error& e) {
  say(e.message);
  return ended(exit_status(e.code));
}

run::Outcome printed(const std::string& text) {
  const auto done = put(text);
  return done ? ended(status_ok) : failed(done.error());
}

run::Outcome unknown_verb(std::string_view name) {
  std::string message;
  if (name == "-h" || name == "help" || name == "-V" || name == "version") {
    message = fmt::format("unknown command {}; did you mean --{}?", quoted(name),
                          name.ends_with('n') || name == "-V" ? "version" : "help");
  } else if (name.starts_with('-')) {
    message = fmt::format("{}: the command comes first: dlock COMMAND [OPTION...]", quoted(name));
  } else {
    std::array<std::string_view, 16> names{};
    std::size_t n = 0;
    for (const VerbInfo& v : verbs()) names[n++] = v.name;
    const std::string_view hint = nearest(name, std::span{names}.first(n));
    message = fmt::format("unknown command {}{}", quoted(name), hint.empty() ? "" : fmt::format("; did you mean {}?", hint));
  }
  say(fmt::format("{} (dlock --help lists the commands)", message));
  return ended(status_usage);
}

Result<run::Outcome> dispatch(const Options& o) {
  if (o.explain || (o.verb != Verb::run && o.verb != Verb::acquire && o.verb != Verb::fence)) fill_closed_descriptors();
  switch (o.verb) {
    case Verb::run: return command_run(o);
    case Verb::acquire: return command_acquire(o);
    case Verb::renew: return command_renew(o);
    case Verb::release: return command_release(o);
    case Verb::check: return command_check(o);
    case Verb::fence: return command_fence(o);
    case Verb::inspect: return command_inspect(o);
    case Verb::bench: return command_bench(o);
  }
  return fail(Errc::internal, "no such command");
}

}  // namespace

run::Outcome command_line(int argc, char** argv) {
  if (argc < 2) {
    put_on_stderr(short_usage());
    return ended(status_usage);
  }
  const std::string_view name = argv[1];
  if (name == "--show-config" || name == "--debug-report") {  // of run, the command with the most options
    std::string run = "run";
    std::vector<char*> words(argv, argv + argc + 1);
    words[0] = run.data();
    const auto options = parse(Verb::run, argc, words.data());
    if (!options) return failed(options.error());
    return printed(options->debug_report ? debug_report(*options) : config_text(*options));
  }
  if (name == "--help" || name == "--version") {
    if (argc > 2) return failed({Errc::usage, fmt::format("{}: unexpected argument {}", name, quoted(argv[2]))});
    return printed(name == "--help" ? general_help() : version_text());
  }
  const auto verb = find_verb(name);
  if (!verb) return unknown_verb(name);

  const auto options = parse(*verb, argc - 1, argv + 1);
  if (!options) return failed(options.error());
  if (options->help) return printed(verb_help(*verb));
  if (options->log_json) say_as_json();
  if (options->show_config) return printed(config_text(*options));
  if (options->debug_report) return printed(debug_report(*options));
  const auto outcome = dispatch(*options);
  return outcome ? *outcome : failed(outcome.error());
}

}  // namespace dlock::cli
