// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_table.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <climits>
#include "cli/options/option_rules.hpp"
#include "cli/options/options.hpp"
#include "cli/options/setters.hpp"
#include "cli/options/values.hpp"
#include "core/duration.hpp"
#include "core/sequencer.hpp"
#include "core/text.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

// Setters for the fields that setters.hpp has no template for.

Result<void> shared(Options& o, std::string_view) {
  o.mode = Mode::shared;
  return {};
}

Result<void> limit(Options& o, std::string_view value) {
  o.mode = Mode::permit;
  return number<1, 1'000'000, &Options::limit>(o, value);
}

constexpr std::size_t most_keys = 64;  // as many as the guard's start message can hold

Result<void> key(Options& o, std::string_view value) {
  if (std::find(o.keys.begin(), o.keys.end(), value) != o.keys.end())
    return fail(Errc::usage, fmt::format("{} twice", quoted(value)));
  if (o.keys.size() == most_keys)
    return fail(Errc::usage, fmt::format("at most {} keys", most_keys));
  o.keys.push_back(value);
  return {};
}

Result<void> inspected_key(Options& o, std::string_view value) {
  if (o.operand)
    return fail(Errc::usage,
                fmt::format("{} and {}: one key or pattern", quoted(*o.operand), quoted(value)));
  o.operand = value;
  return {};
}

Result<void> token(Options& o, std::string_view value) {
  TRY(t, parse_token(value));
  o.token = t;
  return {};
}

Result<void> nonblock(Options& o, std::string_view) {
  // Does not replace a --wait: check_rules() sees both.
  if (!o.wait) o.wait = 0us;
  return {};
}

Result<void> lock_delay(Options& o, std::string_view value) {
  TRY(d, parse_duration(value));
  if (d > 60s)
    return fail(Errc::usage,
                fmt::format("{} is more than the 60s that are allowed", quoted(value)));
  o.lock_delay = d;
  return {};
}

Result<void> once_per(Options& o, std::string_view value) {
  TRY(p, run::OncePer::parse(value));
  o.once_per = p;
  return {};
}

Result<void> signal(Options& o, std::string_view value) {
  TRY(n, parse_signal(value));
  o.signal = n;
  return {};
}

Result<void> on_lost(Options& o, std::string_view value) {
  using Do = run::OnLost::Do;
  const std::string_view rest = value.substr(std::min(value.find(':') + 1, value.size()));
  if (value == "kill") {
    o.on_lost = {};
  } else if (value.starts_with("signal:")) {
    TRY(n, parse_signal(rest));
    o.on_lost = {Do::signal, n, {}};
  } else if (value.starts_with("exec:") && !rest.empty()) {
    o.on_lost = {Do::exec, 0, std::string(rest)};
  } else {
    return fail(Errc::usage,
                fmt::format("{} is neither kill, signal:SIG nor exec:CMD", quoted(value)));
  }
  return {};
}

Result<void> log_format(Options& o, std::string_view value) {
  if (value != "text" && value != "json")
    return fail(Errc::usage, fmt::format("{} is neither text nor json", quoted(value)));
  o.log_json = value == "json";
  return {};
}

Result<void> watch(Options& o, std::string_view value) {
  return positive_duration<&Options::watch>(o, value.empty() ? "2s" : value);
}

Result<void> watch_pid(Options& o, std::string_view value) {
  return number<1, 1 << 22, &Options::watch_pid>(o, value);  // the largest pid of any kernel
}

// The value stands behind =, so that --foreground takes no word of the command.
Result<void> foreground(Options& o, std::string_view value) {
  if (value.empty()) return fail(Errc::usage, "needs a value, as in --foreground=yes");
  if (value == "auto") o.group = run::Group::automatic;
  else if (value == "yes") o.group = run::Group::same;
  else if (value == "no") o.group = run::Group::own;
  else return fail(Errc::usage, fmt::format("{} is neither auto, yes nor no", quoted(value)));
  return {};
}

Result<void> descendants(Options& o, std::string_view value) {
  if (value != "wait" && value != "kill")
    return fail(Errc::usage, fmt::format("{} is neither wait nor kill", quoted(value)));
  o.descendants = value == "wait" ? run::Descendants::wait : run::Descendants::kill;
  return {};
}

Result<void> status(Options& o, std::string_view value) {
  if (value.find_first_not_of("0123456789") == value.npos && !value.empty()) {
    o.status_file = {};
    return number<0, INT_MAX, &Options::status_fd>(o, value);
  }
  o.status_fd = -1;
  return text<&Options::status_file>(o, value);
}

Result<void> sort(Options& o, std::string_view value) {
  if (value == "key") o.sort = Options::Sort::key;
  else if (value == "age") o.sort = Options::Sort::age;
  else if (value == "waiters") o.sort = Options::Sort::waiters;
  else return fail(Errc::usage, fmt::format("{} is neither key, age nor waiters", quoted(value)));
  return {};
}

Result<void> help(Options& o, std::string_view value) {
  if (!value.empty() && value != "all")
    return fail(Errc::usage, fmt::format("{} is not all", quoted(value)));
  o.help = true;
  o.all_help = value == "all";
  return {};
}

Result<void> quiet(Options& o, std::string_view) {
  o.quiet = true;
  o.verbosity = 0;
  return {};
}

Result<void> verbose(Options& o, std::string_view) {
  o.quiet = false;
  ++o.verbosity;
  return {};
}

std::string all_scenarios() {
  std::string names;
  for (const bench::ScenarioInfo& i : bench::scenarios()) names += fmt::format("{}, ", i.name);
  return names + "all";
}

Result<void> bench_scenarios(Options& o, std::string_view value) {
  auto& chosen = o.bench.scenarios;
  const auto choose = [&](bench::Scenario s) {
    if (std::find(chosen.begin(), chosen.end(), s) == chosen.end()) chosen.push_back(s);
  };
  for (;;) {
    const std::string_view name = value.substr(0, value.find(','));
    const auto found = bench::find_scenario(name);
    if (!found && name != "all")
      return fail(Errc::usage, fmt::format("{} is not a scenario; allowed are {}", quoted(name),
                                           all_scenarios()));
    if (found) choose(*found);
    else
      for (const bench::ScenarioInfo& i : bench::scenarios()) choose(i.scenario);
    if (name.size() == value.size()) return {};
    value.remove_prefix(name.size() + 1);
  }
}

constexpr Verbs run = bit(Verb::run), acquire = bit(Verb::acquire), renew = bit(Verb::renew),
                release = bit(Verb::release), check = bit(Verb::check), fence = bit(Verb::fence),
                inspect = bit(Verb::inspect);
constexpr Verbs taking = run | acquire, jobs = run | fence,
                keyed = taking | renew | release | check, stores = keyed | inspect,
                all = stores | fence;

constexpr Verbs benching = bit(Verb::bench), config = bit(Verb::config),
                with_backend = stores | benching | config, everywhere = all | benching | config;

constexpr bool twin = true, no_twin = false;
using G = Group;
using C = Choice;
using O = Options;
using B = BenchOptions;

constexpr Option table[] = {
    {"key", 0, "K", keyed, G::subject, no_twin, C::none,
     "the name to lock: 1 to 200 bytes of UTF-8; repeat it for several keys", key},
    {"key", 0, "K", inspect, G::subject, no_twin, C::none,
     "the key, or a pattern; the same as the only word", inspected_key},
    {"handle", 0, "H", run | renew | release | check, G::subject, no_twin, C::none,
     "what acquire printed: literally, - for standard input or @FILE (default, not for run: "
     "$DLOCK_HANDLE if it is a handle of "
     "this "
     "backend and recipe)",
     text<&O::handle>},
    {"state", 0, "FILE", fence, G::subject, no_twin, C::none,
     "stores the newest token; created if missing", text<&O::state>},
    {"token", 0, "N", release | check | fence, G::subject, no_twin, C::none,
     "the fencing token of a grant", token},
    {"force", 0, nullptr, release, G::subject, no_twin, C::none,
     "remove a holder without its handle; asks which, unless told", on<&O::force>},
    {"yes", 0, nullptr, release, G::subject, no_twin, C::none, "with --force: remove every holder",
     on<&O::yes>},
    {"revoke", 0, nullptr, release, G::subject, no_twin, C::none,
     "ask the holder to stop and release the lock", on<&O::revoke>},
    {"if-held", 0, nullptr, release, G::subject, no_twin, C::none,
     "succeed if the lock is not held", on<&O::if_held>},

    {"nonblock", 'n', nullptr, taking | fence, G::taking, twin, C::waiting,
     "one try; busy at once when the lock is held", nonblock},
    {"wait", 'w', "D", taking | fence, G::taking, twin, C::waiting,
     "wait at most D; 0 is one try (default: for ever)", duration<&O::wait>},
    {"wait", 'w', "D", release, G::subject, no_twin, C::none,
     "with --revoke: wait at most D until the holder is gone", duration<&O::wait>},
    {"conflict-exit-code", 'E', "N", taking | fence, G::taking, twin, C::none,
     "exit status when busy, 0 to 255 (default: 75)", number<0, 255, &O::conflict_status>},
    {"shared", 's', nullptr, taking, G::taking, twin, C::mode,
     "a lock that admits other shared ones", shared},
    {"limit", 0, "N", taking, G::taking, twin, C::mode, "one of at most N holders, 1 to 1000000",
     limit},
    {"lock-delay", 0, "D", taking, G::taking, twin, C::none,
     "if this holder vanishes, block the lock for D, at most 60s (default: 0)", lock_delay},
    {"reason", 0, "TEXT", taking, G::taking, twin, C::none, "shown to waiters and in inspect",
     any_text<&O::reason>},
    {"splay", 0, "D", taking, G::taking, twin, C::none,
     "wait a random time up to D before asking (default: 0)", duration<&O::splay>},

    {"command", 'c', "STR", run, G::job, no_twin, C::none,
     "run STR with /bin/sh -c; what follows -- becomes $1 and so on", text<&O::shell_command>},
    {"kill-after", 'k', "D", run, G::job, twin, C::none,
     "time from the end signal to KILL (default: ttl/5, at most 5s)", duration<&O::kill_after>},
    {"kill-after", 'k', "D", fence, G::job, twin, C::none,
     "time from the end signal to KILL (default: 5s)", duration<&O::kill_after>},
    {"signal", 0, "SIG", jobs, G::job, twin, C::none,
     "the end signal, sent on loss and by --max-run (default: TERM)", signal},
    {"max-run", 0, "D", jobs, G::job, twin, C::none,
     "end the command after D, status 124 (default: 0, no limit)", duration<&O::max_run>},
    {"min-hold", 0, "D", run, G::job, twin, C::none,
     "keep the lock at least D from when it was taken", duration<&O::min_hold>},
    {"once-per", 0, "D|UNIT", run, G::job, twin, C::none,
     "at most one start per D, or per calendar hour, day, week or month, by the store's clock; "
     "else busy",
     once_per},
    {"again", 0, nullptr, run, G::job, no_twin, C::none,
     "with --once-per: start although it ran; the start is noted", on<&O::again>},
    {"until-success", 0, nullptr, run, G::job, no_twin, C::none,
     "with --once-per: a run that failed does not count, and the next may start",
     on<&O::until_success>},
    {"on-lost", 0, "WHAT", run, G::job, twin, C::none,
     "when the lock is lost: kill the command, only send it signal:SIG, or run exec:CMD beside it "
     "(default: kill)",
     on_lost},
    {"foreground", 0, "=auto|yes|no", jobs, G::job, twin, C::none,
     "whether the command stays in the process group of dlock; auto: at a terminal (default: auto)",
     foreground},
    {"descendants", 0, "wait|kill", jobs, G::job, twin, C::none,
     "wait for them or kill them once the command has ended (default: wait)", descendants},
    {"publish-command", 0, nullptr, run, G::job, no_twin, C::none,
     "show the command line to waiters and in inspect", on<&O::publish_command>},
    {"no-env", 0, nullptr, run, G::job, no_twin, C::none, "set no DLOCK_ variables for the command",
     on<&O::no_env>},
    {"no-reentrant", 0, nullptr, run, G::job, no_twin, C::none,
     "contend even for a key that an enclosing dlock holds", on<&O::no_reentrant>},
    {"status", 0, "FD|FILE", run, G::job, twin, C::none,
     "write events, one JSON object per line, to a descriptor (digits alone) or append them to a "
     "file",
     status},
    {"metrics-file", 0, "F", run, G::job, twin, C::none,
     "keep figures for Prometheus in file F, which is replaced at the end", text<&O::metrics_file>},
    {"explain", 0, nullptr, run, G::job, no_twin, C::none,
     "print the time line and the guarantees; run nothing", on<&O::explain>},

    {"hold", 0, nullptr, acquire, G::result, no_twin, C::none,
     "stay and hold the lock until standard input ends or a signal comes", on<&O::hold>},
    {"keep", 0, nullptr, acquire, G::result, no_twin, C::none,
     "a process in the background keeps the lock until it is released or the caller ends",
     on<&O::keep>},
    {"watch-pid", 0, "PID", acquire, G::result, no_twin, C::none,
     "with --keep: the caller (default: the leader of the process group if it is an ancestor, else "
     "the parent)",
     watch_pid},
    {"max-hold", 0, "D", acquire, G::result, twin, C::none,
     "with --keep: release the lock after D (default: 1h)", positive_duration<&O::max_hold>},
    {"output", 0, "text|json|env", acquire, G::result, twin, C::none,
     "what to print: the handle alone, JSON, or lines for eval (default: text)", set_output},
    {"output", 0, "text|json|csv", inspect, G::result, twin, C::none,
     "what to print (default: text)", set_output},
    {"output", 0, "text|json", renew | release | check, G::result, twin, C::none,
     "what to print: nothing, the exit status is the answer, or JSON (default: text)", set_output},
    {"json", 'J', nullptr, run, G::result, no_twin, C::format, "with --explain: one JSON object",
     on<&O::json>},
    {"json", 'J', nullptr, acquire | renew | release | check | inspect, G::result, no_twin,
     C::format, "one JSON object: --output json", on<&O::json>},
    {"csv", 0, nullptr, inspect, G::result, no_twin, C::none,
     "comma-separated values: --output csv", on<&O::csv>},
    {"columns", 'o', "COL,...", inspect, G::result, twin, C::format,
     "the columns to show; +COL,... adds to the default ones", text<&O::columns>},
    {"sort", 0, "key|age|waiters", inspect, G::result, twin, C::none,
     "order of a list: by key, the longest held first, or the most waiters first (default: key)",
     sort},
    {"no-heading", 0, nullptr, inspect, G::result, no_twin, C::none, "no heading and no summary",
     on<&O::no_heading>},
    {"watch", 0, "[D]", inspect, G::result, no_twin, C::none,
     "repeat each D (default: 2s): redrawn at a terminal, q ends it; elsewhere one JSON line per "
     "change",
     watch},
    {"held", 0, nullptr, inspect, G::result, no_twin, C::none,
     "only keys that are held, or kept back by a lock-delay", on<&O::held>},
    {"stale", 0, nullptr, inspect, G::result, no_twin, C::none,
     "only keys with a holder that has vanished or whose lease has ended", on<&O::stale>},
    {"check", 0, nullptr, inspect, G::result, no_twin, C::none,
     "print nothing: 0 free, 75 held, 69 unknown", on<&O::check>},
    {"doctor", 0, nullptr, inspect, G::result, no_twin, C::none,
     "check whether the backend is fit for locks; status 1 if not", on<&O::doctor>},

    {"report", 0, nullptr, config, G::result, no_twin, C::none,
     "what helps to understand a report of a bug, without secrets", on<&O::report>},

    {"scenario", 0, "S,...", benching, G::subject, twin, C::none,
     "uncontended, handoff, shared, limit, renew, crash or all (default: uncontended,handoff)",
     bench_scenarios},
    {"clients", 'c', "N", benching, G::subject, twin, C::none,
     "how many, each with its own connection (default: 8)",
     number<1, 10'000, &O::bench, &B::clients>},
    {"duration", 'd', "D", benching, G::subject, twin, C::length,
     "length of each measurement (default: 5s)", positive_duration<&O::bench, &B::duration>},
    {"ops", 'N', "N", benching, G::subject, twin, C::length, "measure N grants instead",
     number<1, 1'000'000'000'000, &O::bench, &B::ops>},
    {"hold", 0, "D", benching, G::subject, twin, C::none, "keep the lock for D (default: 0)",
     duration<&O::bench, &B::hold>},
    {"rate", 0, "R", benching, G::subject, twin, C::none,
     "ask R times per second, all clients together, and count late starts (default: as fast as "
     "possible)",
     number<1, 10'000'000, &O::bench, &B::rate>},
    {"repeat", 0, "N", benching, G::subject, twin, C::none,
     "everything N times: median and range (default: 1)", number<1, 1000, &O::bench, &B::repeat>},
    {"prefix", 0, "P", benching, G::subject, twin, C::none,
     "prefix of the keys; refused if the store has keys below it (default: a random one)",
     text<&O::bench, &B::prefix>},
    {"output", 0, "text|json|csv", benching, G::result, twin, C::none,
     "what to print (default: text)", set_output},
    {"html", 0, "FILE", benching, G::result, twin, C::none, "write a page with charts, too",
     text<&O::bench, &B::html>},
    {"progress", 'P', "D", benching, G::result, twin, C::none,
     "print a line on standard error each D", positive_duration<&O::bench, &B::progress>},
    {"no-progress", 0, nullptr, benching, G::result, no_twin, C::none,
     "no progress bar on a terminal", on<&O::bench, &B::no_progress>},

    {"backend", 'b', "URL", stores | config, G::common, twin, C::none,
     "where the locks are kept (default: file:)", text<&O::backend>},
    {"recipe", 0, "R", stores | config, G::common, twin, C::none,
     "the way of locking; dlock --version lists them", text<&O::recipe>},
    {"backend", 'b', "URL", benching, G::common, twin, C::none,
     "where the locks are kept; may be repeated; ?password_file=F gives each its own password "
     "(default: file:)",
     added_text<&O::bench, &B::backends>},
    {"recipe", 0, "R", benching, G::common, twin, C::none,
     "the ways of locking, or all; may be repeated (default: each backend's own)",
     added_text<&O::bench, &B::recipes>},
    {"ttl", 0, "D", with_backend, G::common, twin, C::none,
     "how long the lock lasts without a renewal (default: 30s)", positive_duration<&O::ttl>},
    {"op-timeout", 0, "D", with_backend, G::common, twin, C::none,
     "time for one exchange with the store (default: ttl/6, at most 5s)",
     positive_duration<&O::op_timeout>},
    {"connect-timeout", 0, "D", with_backend, G::common, twin, C::none,
     "how long to try to reach the store (default: 5s)", positive_duration<&O::connect_timeout>},
    {"password-file", 0, "F", with_backend, G::common, twin, C::none,
     "the password of the store: the first line of F, which must be private",
     text<&O::password_file>},
    {"auth-file", 0, "F", with_backend, G::common, twin, C::none,
     "credentials for ZooKeeper, SCHEME:CREDENTIAL, likewise", text<&O::auth_file>},
    {"tls-ca", 0, "F", with_backend, G::common, twin, C::none,
     "trusted certificate authorities (default: those of the system)", text<&O::tls_ca>},
    {"tls-cert", 0, "F", with_backend, G::common, twin, C::none, "the client certificate",
     text<&O::tls_cert>},
    {"tls-key", 0, "F", with_backend, G::common, twin, C::none, "its private key",
     text<&O::tls_key>},
    {"tls-insecure", 0, nullptr, with_backend, G::common, no_twin, C::none,
     "do not verify certificates (insecure)", on<&O::tls_insecure>},
    {"quiet", 'q', nullptr, everywhere, G::common, twin, C::words, "print errors only", quiet},
    {"verbose", 'v', nullptr, everywhere, G::common, twin, C::words,
     "print more messages; repeat it for more", verbose},
    {"log-format", 0, "text|json", everywhere, G::common, twin, C::none,
     "messages on stderr: as text, or one JSON object per line (default: text)", log_format},
    {"trace", 0, "FILE", stores, G::common, twin, C::none,
     "append a history of events to FILE, one JSON object per line", text<&O::trace>},
    {"config", 0, "F", everywhere, G::common, twin, C::none,
     "read this configuration file too; it overrides ~/.config/dlock/config.toml and "
     "/etc/dlock/config.toml",
     text<&O::config>},
    {"profile", 0, "NAME", everywhere, G::common, twin, C::none,
     "use [profile.NAME] of the configuration files", text<&O::profile>},
    {"help", 0, "[all]", everywhere, G::common, no_twin, C::none,
     "print this, or with =all every option; -h alone does the same", help},
};

}  // namespace

std::span<const Option> option_table() noexcept { return table; }

bool reads(const Option& o, Verb v) noexcept {
  if (v != Verb::config) return o.twin && belongs(o, v);
  // its own rows come first
  return o.twin && std::none_of(std::begin(table), &o, [&](const Option& earlier) {
           return earlier.twin && std::string_view(earlier.name) == o.name;
         });
}

}  // namespace dlock::cli
