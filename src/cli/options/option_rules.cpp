// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_rules.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <algorithm>
#include <span>
#include "cli/options/verbs.hpp"
#include "core/key.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

tl::unexpected<Error> wrong(std::string message) { return fail(Errc::usage, std::move(message)); }

// Two options that exclude each other.
Result<void> apart(const Options& o, std::string_view a, std::string_view b) {
  if (!given(o, a) || !given(o, b)) return {};
  const bool environment = !given_by_flag(o, a) && !given_by_flag(o, b);
  return fail(environment ? Errc::config : Errc::usage,
              fmt::format("{}: {} and {} contradict each other", info(o.verb).name, called(o, a),
                          called(o, b)));
}

Result<void> all_apart(const Options& o,
                       std::initializer_list<std::pair<std::string_view, std::string_view>> pairs) {
  for (const auto& [a, b] : pairs)
    if (auto r = apart(o, a, b); !r) return r;
  return {};
}

// The same for the command line alone: a variable or a file is shared by many commands.
Result<void> apart_on_command_line(const Options& o, std::string_view a,
                                   std::initializer_list<std::string_view> others) {
  for (const std::string_view b : others)
    if (given_by_flag(o, a) && given_by_flag(o, b)) return apart(o, a, b);
  return {};
}

Result<void> goes_with(const Options& o, std::string_view name, bool there, std::string_view with) {
  if (!given_by_flag(o, name) || there) return {};
  return wrong(fmt::format("{}: --{} goes with --{}", info(o.verb).name, name, with));
}

Result<void> needs_key(const Options& o) {
  if (!o.keys.empty()) return {};
  return wrong(fmt::format("{}: --key is missing; usage: dlock {} {}", info(o.verb).name,
                           info(o.verb).name, info(o.verb).usage));
}

Result<void> taking(const Options& o) {
  if (auto r = needs_key(o); !r) return r;
  if (given(o, "nonblock") && o.wait != 0us)
    if (auto r = apart(o, "nonblock", "wait"); !r) return r;
  return apart(o, "limit", "shared");
}

Result<void> writable_status_fd(const Options& o) {
  if (o.status_fd < 0) return {};
  const int flags = ::fcntl(o.status_fd, F_GETFL);
  const std::string name = called(o, "status");
  if (flags < 0)
    return fail(blame(o, "status"),
                fmt::format("{}: '{}' is not an open descriptor", name, o.status_fd));
  if ((flags & O_ACCMODE) != O_RDONLY) return {};
  return fail(blame(o, "status"),
              fmt::format("{}: descriptor {} is not open for writing", name, o.status_fd));
}

Result<void> run(const Options& o) {
  if (auto r = taking(o); !r) return r;
  if (auto r = writable_status_fd(o); !r) return r;
  if (auto r = goes_with(o, "json", o.explain, "explain"); !r) return r;
  for (const std::string_view name : {"again", "until-success"})
    if (auto r = goes_with(o, name, o.once_per.has_value(), "once-per"); !r) return r;
  if (auto r = apart_on_command_line(
          o, "handle",
          {"nonblock", "wait", "shared", "limit", "lock-delay", "reason", "splay", "min-hold",
           "once-per", "again", "until-success", "publish-command"});
      !r)
    return r;
  if (o.shell_command || o.explain) return {};
  if (!o.command)
    return wrong(
        "run: -- and the command are missing; usage: dlock run --key K -- COMMAND [ARG...]");
  if (!*o.command)
    return wrong(
        "run: the command after -- is missing; usage: dlock run --key K -- COMMAND [ARG...]");
  return {};
}

Result<void> acquire(const Options& o) {
  if (auto r = taking(o); !r) return r;
  if (auto r = apart(o, "keep", "hold"); !r) return r;
  if (o.output == Output::env && o.conflict_status == 0)
    return fail(
        blame(o, "conflict-exit-code"),
        fmt::format("acquire: {} 0 and {} env: a lock that is busy would look like one that "
                    "was taken",
                    called(o, "conflict-exit-code"), called(o, "output")));
  if (auto r = goes_with(o, "watch-pid", o.keep, "keep"); !r) return r;
  return goes_with(o, "max-hold", o.keep, "keep");
}

Result<void> fence(const Options& o) {
  if (o.state.empty())
    return wrong(
        "fence: --state is missing; usage: dlock fence --state FILE --token N -- COMMAND [ARG...]");
  if (!o.token)
    return wrong(
        "fence: --token is missing; usage: dlock fence --state FILE --token N -- COMMAND [ARG...]");
  if (given(o, "nonblock") && o.wait != 0us)
    if (auto r = apart(o, "nonblock", "wait"); !r) return r;
  if (!o.command)
    return wrong(
        "fence: -- and the command are missing; usage: dlock fence --state FILE --token N -- "
        "COMMAND [ARG...]");
  if (!*o.command)
    return wrong(
        "fence: the command after -- is missing; usage: dlock fence --state FILE --token N -- "
        "COMMAND [ARG...]");
  return {};
}

Result<void> release(const Options& o) {
  if (auto r = needs_key(o); !r) return r;
  if (auto r = all_apart(o, {{"force", "handle"},
                             {"token", "yes"},
                             {"revoke", "handle"},
                             {"revoke", "force"},
                             {"revoke", "token"},
                             {"revoke", "yes"}});
      !r)
    return r;
  for (const std::string_view name : {"token", "yes"})
    if (given(o, name) && !o.force)
      return wrong(fmt::format("release: --{} goes with --force", name));
  if (given(o, "wait") && !o.revoke) return wrong("release: --wait goes with --revoke");
  if (o.force && o.json && !o.token && !o.yes)  // it would show the holders and ask
    return wrong("release: --force with JSON output needs --token N or --yes");
  return {};
}

Result<void> check(const Options& o) {
  if (o.operand) {
    if (o.keys.empty()) return {};
    return wrong("check: give either a sequencer or --key, not both");
  }
  if (o.keys.empty())
    return wrong(
        "check: SEQUENCER or --key is missing; usage: dlock check SEQUENCER | K --token N | K "
        "--handle H | --key K");
  return apart(o, "token", "handle");
}

Result<void> inspect(const Options& o) {
  if (auto r = form_apart(o, Output::json, {"columns", "no-heading", "check"}); !r) return r;
  if (auto r = form_apart(o, Output::csv, {"check", "watch", "doctor"}); !r) return r;
  if (auto r = all_apart(o, {{"watch", "check"},
                             {"watch", "doctor"},
                             {"doctor", "check"},
                             {"doctor", "held"},
                             {"doctor", "stale"}});
      !r)
    return r;
  if (o.doctor && o.operand)
    return wrong("inspect: --doctor examines the backend and does not go with a key");
  if (o.check && !o.operand)
    return wrong("inspect: --check needs a key; usage: dlock inspect --check K");
  if (o.operand && (o.held || o.stale))
    return wrong(
        fmt::format("inspect: --{} chooses from the list of all keys and does not go with a key",
                    o.held ? "held" : "stale"));
  return all_apart(o, {{"held", "stale"}});
}

constexpr std::string_view form_names[] = {"text", "json", "env", "csv"};

std::string_view name_of(Output form) noexcept {
  return form_names[static_cast<std::size_t>(form)];
}

std::span<const Output> forms_of(Verb v) noexcept {
  static constexpr Output usual[] = {Output::text, Output::json},
                          of_acquire[] = {Output::text, Output::json, Output::env},
                          of_inspect[] = {Output::text, Output::json, Output::csv},
                          of_bench[] = {Output::text, Output::json, Output::csv};
  switch (v) {
    case Verb::acquire: return of_acquire;
    case Verb::inspect: return of_inspect;
    case Verb::bench: return of_bench;
    default: return usual;
  }
}

// "neither text, json nor env"
std::string is_none(std::string_view value, Verb v) {
  const auto forms = forms_of(v);
  std::string list;
  for (const Output& form : forms)
    list += fmt::format("{}{}",
                        &form == forms.data()    ? ""
                        : &form == &forms.back() ? " nor "
                                                 : ", ",
                        name_of(form));
  return fmt::format("{} is neither {}", quoted(value), list);
}

// How the command line named the form; empty: it did not.
std::string flag_of(const Options& o, Output form) {
  const std::string name(name_of(form));
  if (given_by_flag(o, name)) return "--" + name;
  return given_by_flag(o, "output") ? "--output " + name : "";
}

}  // namespace

Result<void> take_word_as_key(Options& o) {
  if (!o.operand || o.verb == Verb::inspect || (o.verb == Verb::check && !o.token && !o.handle))
    return {};
  if (!o.keys.empty())
    return wrong(fmt::format("{}: unexpected argument {}: the key was given by --key",
                             info(o.verb).name, quoted(*o.operand)));
  o.keys.push_back(*o.operand);
  o.operand.reset();
  return {};
}

Result<void> check_rules(const Options& o) {
  if (auto r = apart(o, "quiet", "verbose"); !r) return r;
  if (o.verb == Verb::config) return {};
  if (!o.backend_required_by.empty() && find_option("backend", bit(o.verb)) && !given(o, "backend"))
    return fail(
        Errc::config,
        fmt::format("{}: no backend is given, and {} requires one (require-backend): name it "
                    "with -b URL, DLOCK_BACKEND or backend = \"URL\" in a file",
                    info(o.verb).name, o.backend_required_by));
  switch (o.verb) {
    case Verb::run: return run(o);
    case Verb::acquire: return acquire(o);
    case Verb::renew: return needs_key(o);
    case Verb::release: return release(o);
    case Verb::check: return check(o);
    case Verb::fence: return fence(o);
    case Verb::inspect: return inspect(o);
    case Verb::config: return {};
    case Verb::bench: return all_apart(o, {{"duration", "ops"}, {"progress", "no-progress"}});
  }
  return {};
}

Result<void> set_output(Options& o, std::string_view value) {
  const auto at = std::find(std::begin(form_names), std::end(form_names), value);
  if (at == std::end(form_names)) return fail(Errc::usage, is_none(value, o.verb));
  const auto form = static_cast<Output>(at - std::begin(form_names));
  const auto forms = forms_of(o.verb);
  const bool has = std::find(forms.begin(), forms.end(), form) != forms.end();
  o.output = has ? form : Output::text;
  o.foreign_output = has ? std::string_view() : value;
  return {};
}

Result<void> choose_output(Options& o) {
  if (!o.foreign_output.empty() && given_by_flag(o, "output"))
    return fail(Errc::usage, fmt::format("--output: {}", is_none(o.foreign_output, o.verb)));
  for (const auto& [wanted, form] : {std::pair{o.json, Output::json}, {o.csv, Output::csv}}) {
    if (!wanted) continue;
    const bool other = form == Output::json ? o.csv : o.json;
    if (other || (given_by_flag(o, "output") && o.output != form))
      return fail(Errc::usage,
                  fmt::format("{}: --{} and --{} contradict each other", info(o.verb).name,
                              name_of(form), other ? "csv" : "output"));
    o.output = form;
  }
  o.json = o.output == Output::json;
  o.csv = o.output == Output::csv;
  return {};
}

Result<void> form_apart(const Options& o, Output form,
                        std::initializer_list<std::string_view> others) {
  const std::string flag = o.output == form ? flag_of(o, form) : "";
  if (flag.empty()) return {};
  for (const std::string_view other : others)
    if (given_by_flag(o, other))
      return fail(Errc::usage, fmt::format("{}: {} and --{} contradict each other",
                                           info(o.verb).name, flag, other));
  return {};
}

}  // namespace dlock::cli
