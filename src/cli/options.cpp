// SPDX-License-Identifier: Apache-2.0
#include "cli/options.hpp"
#include <fmt/format.h>
#include <getopt.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include "cli/configuration.hpp"
#include "cli/nearest.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

constexpr int first_long = 256;  // getopt's value for row i of the table: first_long + i
constexpr std::size_t most_rows = 128;

bool belongs(const Option& o, Verb v) noexcept { return (o.verbs & bit(v)) != 0; }

const Option* by_name(std::string_view name, Verbs verbs) noexcept {
  for (const Option& o : option_table())
    if ((o.verbs & verbs) && name == o.name) return &o;
  return nullptr;
}
// One that may stand in a file. Several rows can have one name, each for other commands (bench has a --backend of its own).
const Option* settable(std::string_view name, Verbs verbs) noexcept {
  for (const Option& o : option_table())
    if ((o.verbs & verbs) && o.twin && name == o.name) return &o;
  return nullptr;
}
const Option* by_letter(char letter, Verbs verbs) noexcept {
  for (const Option& o : option_table())
    if ((o.verbs & verbs) && o.letter && letter == o.letter) return &o;
  return nullptr;
}

// The value that counts, of those that were given: the command line is read first, and then only what is not there yet.
const Given* find(const Options& o, std::string_view name) noexcept {
  for (const Given& g : o.values)
    if (!g.off && name == g.option->name) return &g;
  return nullptr;
}

// What getopt_long(3) needs to know about the options of one verb.
struct Getopt {
  std::array<::option, most_rows + 1> longs{};
  std::string shorts = "+:";  // stop at operands: parse() takes them; a missing argument is ':'

  explicit Getopt(Verb v) {
    std::size_t n = 0;
    int value = first_long;
    for (const Option& o : option_table()) {
      if (belongs(o, v)) {
        const int argument = !o.argument ? no_argument : o.argument[0] == '[' ? optional_argument : required_argument;
        longs[n++] = {o.name, argument, nullptr, value};
        if (o.letter) shorts += o.letter;
        if (o.letter && o.argument) shorts += ':';
      }
      ++value;
    }
  }
};

// -- What is wrong with an option that is not one of this verb's ------------------------------------------------------

// What other programs call it.
constexpr struct {
  std::string_view typed, meant, shown;
} elsewhere_called[] = {{"h", "help", "help"},          {"timeout", "max-run", "wait or --max-run"},
                        {"timeout", "wait", "wait"},    {"try", "wait", "wait"},
                        {"nb", "nonblock", "nonblock"}, {"e", "exclusive", "exclusive"},
                        {"name", "key", "key"},         {"lock", "key", "key"},
                        {"lease", "ttl", "ttl"},        {"format", "output", "output"}};

std::string_view called_here(std::string_view typed, Verb verb) {
  for (const auto& [name, meant, shown] : elsewhere_called)
    if (name == typed && by_name(meant, bit(verb))) return shown;
  return {};
}

tl::unexpected<Error> unknown(Verb verb, std::string_view shown, const Option* elsewhere, std::string_view hint) {
  const std::string_view name = info(verb).name;
  if (elsewhere && verb == Verb::inspect && elsewhere->name == std::string_view("key"))
    return fail(Errc::usage, "inspect: the key is given without --key: dlock inspect K");
  if (elsewhere) {
    std::string owners;
    for (const VerbInfo& v : verbs())
      if (belongs(*elsewhere, v.verb)) owners += fmt::format("{}{}", owners.empty() ? "" : ", ", v.name);
    return fail(Errc::usage, fmt::format("{} is an option of {}, not of {}", shown, owners, name));
  }
  const std::string also = hint.empty() ? "" : fmt::format("; did you mean --{}?", hint);
  return fail(Errc::usage, fmt::format("{}: unknown option {}{} (dlock {} --help lists them)", name, shown, also, name));
}

tl::unexpected<Error> unknown_long(Verb verb, std::string_view name) {
  std::array<std::string_view, most_rows> names{};
  std::size_t n = 0;
  for (const Option& o : option_table())
    if (belongs(o, verb)) names[n++] = o.name;
  const auto known = called_here(name, verb);
  const auto hint = known.empty() ? nearest(name, std::span{names}.first(n)) : known;
  return unknown(verb, quoted(fmt::format("--{}", name)), by_name(name, ~0U), hint);
}

tl::unexpected<Error> unknown_letter(Verb verb, char letter) {
  return unknown(verb, quoted(fmt::format("-{}", letter)), by_letter(letter, ~0U), called_here({&letter, 1}, verb));
}

// -- Values ----------------------------------------------------------------------------------------------------------

Result<void> set(Options& to, const Option& o, std::string_view value) {
  const auto done = o.set(to, value);
  if (!done) return fail(done.error().code, fmt::format("--{}: {}", o.name, done.error().message));
  to.values.push_back({&o, value, Source::flag});
  return {};
}

Result<void> set_operand(Options& to, std::string_view text, bool before_dashes, int argc, char** argv) {
  const bool takes_one = to.verb == Verb::check || to.verb == Verb::inspect;
  if (takes_one && !to.operand) {
    to.operand = text;
    return {};
  }
  const std::string_view name = info(to.verb).name;
  if ((to.verb == Verb::run || to.verb == Verb::fence) && before_dashes) {
    const bool no_dashes = std::none_of(argv, argv + argc, [](const char* a) { return std::string_view(a) == "--"; });
    const bool no_key = to.verb == Verb::run && to.keys.empty();
    const std::string_view hint = no_dashes ? "put -- before the command"
                                  : no_key  ? "the key goes after --key, the command after --"
                                            : "the command goes after --";
    return fail(Errc::usage, fmt::format("{}: unexpected argument {}: {}", name, quoted(text), hint));
  }
  return fail(Errc::usage,
              fmt::format("{}: unexpected argument {}; usage: dlock {} {}", name, quoted(text), name, info(to.verb).usage));
}

Result<void> from_arguments(Options& to, int argc, char** argv) {
  Getopt known(to.verb);
  const Verbs mine = bit(to.verb);
  const int left = static_cast<int>(std::find(argv, argv + argc, std::string_view("--")) - argv);

  ::opterr = 0;
  ::optind = 0;  // glibc: start afresh
  for (;;) {
    const int at = std::max(::optind, 1);
    const int c = ::getopt_long(left, argv, known.shorts.c_str(), known.longs.data(), nullptr);  // NOLINT(concurrency-mt-unsafe)
    if (c == -1) {
      if (::optind >= left) break;
      if (auto r = set_operand(to, argv[::optind++], true, argc, argv); !r) return r;
      continue;
    }
    const std::string_view argument = argv[at];
    const Option* option = nullptr;
    if (argument.starts_with("--")) {
      // getopt_long accepts abbreviations; what was written decides.
      const std::string_view name = argument.substr(2, argument.find('=') - 2);
      option = by_name(name, mine);
      if (!option) return unknown_long(to.verb, name);
    } else {
      const int letter = c == '?' || c == ':' ? ::optopt : c;
      option = by_letter(static_cast<char>(letter), mine);
      if (!option) return unknown_letter(to.verb, static_cast<char>(letter));
    }
    if (c == ':') return fail(Errc::usage, fmt::format("--{}: needs a value, {}", option->name, option->argument));
    if (c == '?') {
      const std::string_view value = argument.substr(argument.find('=') + 1);
      return fail(Errc::usage, fmt::format("--{}: {} is too much, it takes no value", option->name, quoted(value)));
    }
    if (auto r = set(to, *option, ::optarg ? ::optarg : ""); !r) return r;
  }

  if (left == argc) return {};
  char** rest = argv + left + 1;
  if (to.verb == Verb::run || to.verb == Verb::fence) to.command = rest;
  else
    for (; *rest; ++rest)
      if (auto r = set_operand(to, *rest, false, argc, argv); !r) return r;
  return {};
}

// -- Environment and configuration -----------------------------------------------------------------------------------

// A choice that was made where more weight lies is not overruled by another option about it.
bool decided(const Options& to, const Given& by) {
  const auto outweighs = [&](const Given& g) { return g.source != by.source ? g.source < by.source : g.layer < by.layer; };
  return std::any_of(to.values.begin(), to.values.end(), [&](const Given& g) {
    const Choice choice = by.option->choice;
    return outweighs(g) && (g.option == by.option || (choice != Choice::none && g.option->choice == choice && !g.off));
  });
}

// The value of a twin, which for a switch may be "no".
Result<void> set_twin(Options& to, Given given) {
  if (decided(to, given)) return {};
  if (!given.option->argument) {
    const auto is_on = parse_switch(given.value);
    if (!is_on) return fail(is_on.error());
    given.off = !*is_on;
  }
  if (!given.off)
    if (auto done = given.option->set(to, given.value); !done) return done;
  to.values.push_back(given);
  return {};
}

Result<void> from_environment(Options& to) {
  bool any = false;
  for (char** e = ::environ; *e && !any; ++e) any = std::string_view(*e).starts_with("DLOCK_");
  if (!any) return {};  // the usual case, and half of what parsing costs
  for (const Option& o : option_table()) {
    if (!o.twin || !belongs(o, to.verb)) continue;
    const std::string name = environment_name(o);
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): no thread exists yet
    if (!value || decided(to, {&o, value, Source::environment})) continue;
    // Set and empty is a mistake, not "unset": it must not send a lock to another place than was meant.
    if (!*value) return fail(Errc::config, fmt::format("{}: is set but empty; unset it or give it a value", name));
    if (const auto done = set_twin(to, {&o, value, Source::environment}); !done)
      return fail(Errc::config, fmt::format("{}: {}", name, done.error().message));
  }
  return {};
}

Result<void> from_configuration(Options& to) {
  const auto entries = read_configuration(to);
  if (!entries) return fail(entries.error());
  for (const Entry& e : *entries) {  // the ones with more weight first
    const Option* o = settable(e.name, bit(to.verb));
    const auto wrong = [&](std::string_view why) { return fail(Errc::config, fmt::format("{}: {}: {}", e.where, e.name, why)); };
    if (e.name == "config" || e.name == "profile") return wrong("which files and profile count is settled before a file is read");
    if (!o && settable(e.name, ~0U)) continue;  // of another command
    if (!o) return wrong(by_name(e.name, ~0U) ? "this option cannot be in a configuration file" : "there is no such option");
    if (const auto done = set_twin(to, {o, e.value, Source::config, e.where, e.layer}); !done) return wrong(done.error().message);
  }
  return {};
}

}  // namespace

std::string environment_name(const Option& o) {
  std::string name = "DLOCK_";
  for (const char* c = o.name; *c; ++c) name += *c == '-' ? '_' : static_cast<char>(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
  return name;
}

bool given_by_flag(const Options& o, std::string_view name) noexcept {
  const Given* g = find(o, name);
  return g && g->source == Source::flag;
}
bool given(const Options& o, std::string_view name) noexcept { return find(o, name) != nullptr; }

std::string called(const Options& o, std::string_view name) {
  const Given* g = find(o, name);
  if (g && g->source == Source::environment) return environment_name(*g->option);
  if (g && g->source == Source::config) return fmt::format("{}: {}", g->where, name);
  return fmt::format("--{}", name);
}

Errc blame(const Options& o, std::string_view name) noexcept {
  const Given* g = find(o, name);
  return g && g->source != Source::flag ? Errc::config : Errc::usage;
}

Result<Options> parse(Verb verb, int argc, char** argv) {
  Options to;
  to.verb = verb;
  if (auto r = from_arguments(to, argc, argv); !r) return fail(r.error());
  if (to.help) return to;
  if (auto r = from_environment(to); !r) return fail(r.error());
  if (auto r = from_configuration(to); !r) return fail(r.error());
  if (auto r = check_rules(to); !r) return fail(r.error());
  return to;
}

}  // namespace dlock::cli
