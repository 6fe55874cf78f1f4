// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include "cli/options/option_table.hpp"
#include "cli/options/values.hpp"
#include "cli/options/verbs.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

// An error that begins with the command's name.
tl::unexpected<Error> wrong(const Options& o, std::string_view message, Errc code = Errc::usage) {
  return fail(code, "{}: {}", info(o.verb).name, message);
}

tl::unexpected<Error> missing(const Options& o, std::string_view what) {
  constexpr std::string_view any = "[OPTION...] ";  // what the message leaves out
  std::string_view usage = info(o.verb).usage;
  usage.remove_prefix(usage.starts_with(any) ? any.size() : 0);
  return wrong(o, fmt::format("{}; usage: dlock {} {}", what, info(o.verb).name, usage));
}

// The checks that the table below uses. `b` is one name, or several names with spaces between.

// `a` excludes each option in `b`.
Result<void> apart(const Options& o, std::string_view a, std::string_view b) {
  while (!b.empty())
    if (const auto other = next_part(b, ' '); given(o, a) && given(o, other))
      return wrong(o,
                   fmt::format("{} and {} contradict each other", display_name(o, a),
                               display_name(o, other)),
                   given_by_flag(o, a) || given_by_flag(o, other) ? Errc::usage : Errc::config);
  return {};
}

// Like apart(), but on the command line only, because many commands share variables and files.
Result<void> flags_apart(const Options& o, std::string_view a, std::string_view b) {
  while (!b.empty())
    if (const auto other = next_part(b, ' '); given_by_flag(o, a) && given_by_flag(o, other))
      return apart(o, a, other);
  return {};
}

// `a` is --json or --csv, which choose a form of output, as --output does. `a` excludes each option
// in `b`.
Result<void> form_apart(const Options& o, std::string_view a, std::string_view b) {
  if (!(a == "json" ? o.json : o.csv)) return {};
  const bool by_switch = given_by_flag(o, a);
  if (!by_switch && !given_by_flag(o, "output")) return {};
  while (!b.empty())
    if (const auto other = next_part(b, ' '); given_by_flag(o, other))
      return wrong(o, fmt::format("--{}{} and --{} contradict each other",
                                  by_switch ? "" : "output ", a, other));
  return {};
}

// `a` means something only together with `b`.
Result<void> goes_with(const Options& o, std::string_view a, std::string_view b) {
  if (!given_by_flag(o, a) || given(o, b)) return {};
  return wrong(o, fmt::format("--{} goes with --{}", a, b));
}

Result<void> required(const Options& o, std::string_view a, std::string_view) {
  if (given(o, a)) return {};
  return missing(o, fmt::format("--{} is missing", a));
}

Result<void> one_try_apart(const Options& o, std::string_view a, std::string_view b) {
  return o.wait == 0us ? Result<void>{} : apart(o, a, b);
}

Result<void> needs_backend(const Options& o, std::string_view a, std::string_view) {
  if (o.backend_required_by.empty() || !find_option(a, bit(o.verb)) || given(o, a)) return {};
  return wrong(o,
               fmt::format("no backend is given, and {} requires one (require-backend): name it "
                           "with -b URL, DLOCK_BACKEND or backend = \"URL\" in a file",
                           o.backend_required_by),
               Errc::config);
}

Result<void> needs_key(const Options& o, std::string_view, std::string_view) {
  if (!o.keys.empty()) return {};
  const VerbInfo& verb = info(o.verb);
  return wrong(o, fmt::format("--key is missing; usage: dlock {} {}", verb.name, verb.usage));
}

Result<void> needs_command(const Options& o, std::string_view, std::string_view) {
  if (o.shell_command || o.explain || (o.command && *o.command)) return {};
  return missing(o,
                 o.command ? "the command after -- is missing" : "-- and the command are missing");
}

Result<void> writable_descriptor(const Options& o, std::string_view a, std::string_view) {
  if (o.status_fd < 0) return {};
  const int flags = ::fcntl(o.status_fd, F_GETFL);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return {};
  const std::string why = flags < 0
                              ? fmt::format("'{}' is not an open descriptor", o.status_fd)
                              : fmt::format("descriptor {} is not open for writing", o.status_fd);
  return fail(error_code_of(o, a), "{}: {}", display_name(o, a), why);
}

Result<void> busy_is_failure(const Options& o, std::string_view a, std::string_view b) {
  if (o.output != Output::env || o.conflict_status != 0) return {};
  return wrong(
      o,
      fmt::format("{} 0 and {} env: a lock that is busy would look like one that was taken",
                  display_name(o, a), display_name(o, b)),
      error_code_of(o, a));
}

// With JSON output dlock cannot show the holders and ask which of them to remove.
Result<void> needs_no_dialogue(const Options& o, std::string_view, std::string_view) {
  if (!o.force || !o.json || o.token || o.yes) return {};
  return wrong(o, "--force with JSON output needs --token N or --yes");
}

Result<void> one_grant(const Options& o, std::string_view, std::string_view) {
  if (o.operand && !o.keys.empty()) return wrong(o, "give either a sequencer or --key, not both");
  if (!o.operand && o.keys.empty()) return missing(o, "SEQUENCER or --key is missing");
  return {};
}

Result<void> with_or_without_key(const Options& o, std::string_view, std::string_view) {
  if (o.doctor && o.operand)
    return wrong(o, "--doctor examines the backend and does not go with a key");
  if (o.check && !o.operand) return wrong(o, "--check needs a key; usage: dlock inspect --check K");
  if (o.operand && (o.held || o.stale))
    return wrong(o, fmt::format("--{} chooses from the list of all keys and does not go with a key",
                                o.held ? "held" : "stale"));
  return {};
}

using namespace sets;

struct Rule {
  Verbs verbs;
  Result<void> (*holds)(const Options&, std::string_view a, std::string_view b);
  std::string_view a{}, b{};
};

// check_rules() reports the first broken rule.
constexpr Rule rules[] = {
    {~0U, apart, "quiet", "verbose"},
    {~config, needs_backend, "backend"},
    {taking | release | renew, needs_key},
    {taking, one_try_apart, "nonblock", "wait"},
    {taking, apart, "limit", "shared"},

    {run, writable_descriptor, "status"},
    {run, goes_with, "json", "explain"},
    {run, goes_with, "again", "once-per"},
    {run, goes_with, "until-success", "once-per"},
    {run, flags_apart, "handle",
     "nonblock wait max-waiters shared limit lock-delay reason splay min-hold once-per again "
     "until-success "
     "publish-command"},

    {acquire, apart, "keep", "hold"},
    {acquire, busy_is_failure, "conflict-exit-code", "output"},
    {acquire, goes_with, "watch-pid", "keep"},
    {acquire, goes_with, "max-hold", "keep"},

    {release, apart, "force", "handle"},
    {release, apart, "token", "yes"},
    {release, apart, "revoke", "handle force token yes"},
    {release, goes_with, "token", "force"},
    {release, goes_with, "yes", "force"},
    {release, goes_with, "wait", "revoke"},
    {release, needs_no_dialogue},

    {check, one_grant},
    {check, apart, "token", "handle"},

    {fence, required, "state"},
    {fence, required, "token"},
    {fence, one_try_apart, "nonblock", "wait"},
    {run | fence, needs_command},

    {inspect, form_apart, "json", "columns no-heading check"},
    {inspect, form_apart, "csv", "check watch doctor"},
    {inspect, apart, "watch", "check doctor"},
    {inspect, apart, "doctor", "check held stale"},
    {inspect, with_or_without_key},
    {inspect, apart, "held", "stale"},

    {benching, apart, "duration", "ops"},
    {benching, apart, "progress", "no-progress"},
};

// The forms of --output: "text|json|env".
std::string_view forms_of(Verb v) noexcept {
  const Option* const own = find_option("output", bit(v));
  return own ? own->argument : "text|json";
}

}  // namespace

Result<void> operand_as_key(Options& o) {
  if (!o.operand || o.verb == Verb::inspect || (o.verb == Verb::check && !o.token && !o.handle))
    return {};
  if (!o.keys.empty())
    return wrong(
        o, fmt::format("unexpected argument {}: the key was given by --key", quoted(*o.operand)));
  o.keys.push_back(*o.operand);
  o.operand.reset();
  return {};
}

Result<void> check_rules(const Options& o) {
  for (const Rule& rule : rules)
    if (rule.verbs & bit(o.verb)) TRY_VOID(rule.holds(o, rule.a, rule.b));
  return {};
}

Result<void> set_output(Options& o, std::string_view value) {
  const auto own = parse_choice(value, forms_of(o.verb));
  const auto form = parse_choice(value, "text|json|env|csv");  // in the order of enum Output
  if (!form) return fail(own.error());
  o.output = own ? static_cast<Output>(*form) : Output::text;
  o.foreign_output = own ? std::string_view() : value;
  return {};
}

Result<void> choose_output(Options& o) {
  const bool by_flag = given_by_flag(o, "output");
  if (!o.foreign_output.empty() && by_flag)
    return fail(Errc::usage, "--output: {}",
                parse_choice(o.foreign_output, forms_of(o.verb)).error().message);
  const auto contradiction = [&](std::string_view a, std::string_view b) {
    return wrong(o, fmt::format("--{} and --{} contradict each other", a, b));
  };
  if (o.json && o.csv) return contradiction("json", "csv");
  if (o.json && by_flag && o.output != Output::json) return contradiction("json", "output");
  if (o.csv && by_flag && o.output != Output::csv) return contradiction("csv", "output");
  if (o.json) o.output = Output::json;
  if (o.csv) o.output = Output::csv;
  o.json = o.output == Output::json;
  o.csv = o.output == Output::csv;
  return {};
}

}  // namespace dlock::cli
