// SPDX-License-Identifier: Apache-2.0
#include "cli/options/verbs.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <utility>
#include "cli/options/option_table.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

constexpr VerbInfo table[] = {
    {Verb::run, "run", "[OPTION...] --key K -- COMMAND [ARG...]",
     "take the lock, run COMMAND, release",
     "Takes the lock K, runs COMMAND while it is held, and releases it when COMMAND and all of its "
     "descendants are gone. What follows the first -- reaches COMMAND byte for byte; there is no "
     "shell unless -c asks for one.",
     "0 3 * * *  dlock run -n -E 0 --once-per day --key nightly -- /opt/nightly"},
    {Verb::acquire, "acquire", "[OPTION...] K | --key K [--key K]...",
     "take the lock for --ttl and print its handle",
     "Takes the lock K as a lease of --ttl that no process keeps alive, and prints the handle with "
     "which it can be renewed and released. With --keep, a process in the background keeps the "
     "lock until release or until the caller is gone. With --hold, dlock stays and holds the lock "
     "until its standard input ends or a signal comes.",
     "grant=$(dlock acquire --keep -w 1m --output env deploy) || exit; eval \"$grant\""},
    {Verb::renew, "renew", "[OPTION...] K [--handle H]", "extend a lease that acquire took",
     "Makes the lease of K last for --ttl, counted from now. A lease that has ended is not "
     "revived.",
     "dlock renew deploy --handle \"$h\""},
    {Verb::release, "release",
     "[OPTION...] K [--handle H | --revoke | --force --token N | --force --yes]",
     "release the lock",
     "Releases the lock K that the handle holds. --force removes another holder: the one with "
     "--token N, or all with --yes. --force does not stop a holder's work; --revoke asks the "
     "holder "
     "to stop.",
     "dlock release deploy --handle \"$h\""},
    {Verb::check, "check", "[OPTION...] SEQUENCER | K --token N | K --handle H | --key K",
     "is this grant still in force?",
     "Exit status 0 if the grant is in force now, 1 if it is not. Prints nothing.",
     "dlock check \"$DLOCK_SEQUENCER\" && mv out.tmp out"},
    {Verb::fence, "fence", "[OPTION...] --state FILE --token N -- COMMAND [ARG...]",
     "run COMMAND unless a newer token was seen",
     "Runs COMMAND only if N is not older than the newest token in FILE, and writes N to FILE "
     "first. Calls for the same FILE run one after the other. So a holder that was frozen, and has "
     "lost its lock since, can change nothing.",
     "dlock fence --state /var/lib/site.fence --token \"$DLOCK_TOKEN\" -- deploy"},
    {Verb::inspect, "inspect", "[OPTION...] [K | PATTERN]", "show holders and waiters",
     "Shows one key, the keys that match a PATTERN of the shell ('svc-*'), or every key of the "
     "backend. ASKED is when the holder asked for the lock, by the clock of its host. AGE is how "
     "long "
     "it has held the lock, if the store records that. LEASE is the time until the lock ends "
     "without "
     "a renewal.",
     "dlock inspect nightly"},
    {Verb::bench, "bench", "[OPTION...]", "measure and compare backends and recipes",
     "Measures with many clients how fast locks are taken and handed on, for every backend (-b) "
     "and "
     "recipe (--recipe) given. It checks that no two clients ever hold the same lock; otherwise it "
     "prints FAIL and exits with 1. It removes what it wrote.",
     "dlock bench -b file: -b redis://lock1 --scenario handoff"},
    {Verb::config, "config", "[OPTION...]", "show every value and where it comes from",
     "Prints every option that a variable or a configuration file can set: first those that are "
     "set, with value and source; then the others, as comments with their defaults, grouped "
     "by the commands that read them. Sends no request to a backend.",
     "dlock config --profile batch"},
};

constexpr std::size_t line_width = 80, option_column = 30;

// Wraps `text` at line_width. The first line begins at `column`, and the others are indented to it.
std::string wrapped(std::string_view text, std::size_t column) {
  std::string out;
  std::size_t at = column;
  while (!text.empty()) {
    const std::string_view word = next_part(text, ' ');
    if (at > column && at + 1 + word.size() > line_width) {
      out += '\n' + std::string(column, ' ');
      at = column;
    } else if (at > column) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
  }
  return out + '\n';
}

// Returns "  left      meaning". If the left side is too long, it gets a line of its own.
std::string entry(std::string_view left, std::string_view meaning, std::size_t column) {
  const bool fits = left.size() + 2 <= column;
  return fmt::format(
      "{}{}{}", left,
      fits ? std::string(column - left.size(), ' ') : '\n' + std::string(column, ' '),
      wrapped(meaning, column));
}

std::string option_entry(const Option& o) {
  const std::string letter = o.letter ? fmt::format("-{}, ", o.letter) : "    ";
  const std::string_view name = o.argument ? o.argument : "";
  const std::string argument = name.empty()     ? ""
                               : name[0] == '[' ? fmt::format("[={}", name.substr(1))
                               : name[0] == '=' ? std::string(name)
                                                : fmt::format("={}", name);
  const std::string default_text =
      o.default_text.empty() ? "" : fmt::format(" (default: {})", o.default_text);
  return entry(fmt::format("  {}--{}{}", letter, o.name, argument),
               fmt::format("{}{}", o.help, default_text), option_column);
}

std::string_view heading(Group g) {
  switch (g) {
    case Group::subject: return "What";
    case Group::taking: return "Taking the lock";
    case Group::job: return "The command";
    case Group::result: return "Result";
    case Group::common: return "Common";
  }
  return "";
}

// --help shows these options; --help=all shows all.
constexpr std::string_view everyday =
    " key handle state token force yes revoke if-held nonblock wait limit shared reason command "
    "kill-after max-run min-hold once-per explain hold keep until-success output json csv columns "
    "watch held stale check doctor scenario clients duration repeat html backend recipe ttl quiet "
    "verbose help conflict-exit-code report ";

bool is_everyday(const Option& o, Verb v) {
  if (v == Verb::run && o.group == Group::result) return false;  // needed only with --explain
  return everyday.find(fmt::format(" {} ", o.name)) != everyday.npos;
}

std::string options_of(Verb v, bool all) {
  std::string text;
  for (const Group g : {Group::subject, Group::taking, Group::job, Group::result, Group::common}) {
    bool first = true;
    for (const Option& o : option_table()) {
      if (o.group != g || !belongs(o, v) || !(all || is_everyday(o, v))) continue;
      if (std::exchange(first, false)) text += fmt::format("\n{}:\n", heading(g));
      text += option_entry(o);
    }
  }
  return text;
}

std::string twins_of(Verb v) {
  std::string names;
  for (const Option& o : option_table())
    if (reads(o, v)) names += (names.empty() ? "  " : " ") + environment_name(o.name);
  return fmt::format("\nEnvironment (an option on the command line comes first):\n  {}",
                     wrapped(names.substr(2), 2));
}

constexpr std::string_view durations =
    "Durations D: 30 (seconds), 500ms, 90s, 5m, 1h30m, 1.5h, 2d.\n";

}  // namespace

std::span<const VerbInfo> verbs() noexcept { return table; }
const VerbInfo& info(Verb v) noexcept { return table[static_cast<unsigned>(v)]; }

std::optional<Verb> find_verb(std::string_view name) noexcept {
  for (const VerbInfo& v : table)
    if (v.name == name) return v.verb;
  return std::nullopt;
}

std::string short_usage() {
  return "usage: dlock run --key K -- COMMAND [ARG...]\n"
         "       dlock help [COMMAND | PAGE] | --help | --version\n";
}

std::string general_help() {
  std::string text =
      "usage: dlock COMMAND [OPTION...]\n\n"
      "Takes a lock, runs a command while it is held, and makes sure that the command is\n"
      "dead before the lock is granted to another holder.\n\nCommands:\n";
  for (const VerbInfo& v : verbs()) text += entry(fmt::format("  {}", v.name), v.summary, 12);
  text +=
      "\ndlock help COMMAND lists the options of a command. dlock --version lists the\n"
      "backends and recipes that are built in. Alone, or alone after a command, -h means\n"
      "--help, and -V means --version.\n\n"
      "Pages of the manual that dlock help PAGE prints:\n ";
  for (const ManualPage& p : manual_pages()) text += fmt::format(" {}", p.name);
  text += "\n\n";
  text += durations;
  text += "\nExit status:\n";
  for (const ExitStatus& s : exit_statuses())
    text += entry(fmt::format("  {}", static_cast<int>(s.code)), s.meaning, 12);
  return text;
}

std::string verb_help(Verb v) {
  const VerbInfo& i = info(v);
  const auto count =
      std::ranges::count_if(option_table(), [&](const Option& o) { return belongs(o, v); });
  return fmt::format(
      "usage: dlock {} {}\n\n{}{}\n{}\nExample:\n  {}\n\ndlock {} --help=all lists all {} options "
      "and their variables.\n",
      i.name, i.usage, wrapped(i.about, 0), options_of(v, false), durations, i.example, i.name,
      count);
}

std::string full_help(Verb v) {
  const VerbInfo& i = info(v);
  return fmt::format("usage: dlock {} {}\n\n{}{}{}\n{}\nExample:\n  {}\n", i.name, i.usage,
                     wrapped(i.about, 0), options_of(v, true), twins_of(v), durations, i.example);
}

}  // namespace dlock::cli
