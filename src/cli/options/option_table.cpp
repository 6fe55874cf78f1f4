// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_table.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <climits>
#include "cli/options/values.hpp"
#include "core/duration.hpp"
#include "core/sequencer.hpp"
#include "core/text.hpp"
#include "core/url.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

// Setters for fields that no template of values.hpp can set.

Result<void> shared(Options& o, std::string_view) {
  o.mode = Mode::shared;
  return {};
}

Result<void> limit(Options& o, std::string_view value) {
  o.mode = Mode::permit;
  return number<1, 1'000'000, &Options::limit>(o, value);
}

constexpr std::size_t most_keys = 64;  // more would not fit into the guard's start message

Result<void> key(Options& o, std::string_view value) {
  if (std::ranges::find(o.keys, value) != o.keys.end())
    return fail(Errc::usage, "{} twice", quoted(value));
  if (o.keys.size() == most_keys) return fail(Errc::usage, "at most {} keys", most_keys);
  o.keys.push_back(value);
  return {};
}

Result<void> inspected_key(Options& o, std::string_view value) {
  if (o.operand)
    return fail(Errc::usage, "{} and {}: one key or pattern", quoted(*o.operand), quoted(value));
  o.operand = value;
  return {};
}

Result<void> nonblock(Options& o, std::string_view) {
  // Keep a --wait that was given, because check_rules() must see both options.
  if (!o.wait) o.wait = 0us;
  return {};
}

Result<void> lock_delay(Options& o, std::string_view value) {
  TRY(d, parse_duration(value));
  if (d > 60s) return fail(Errc::usage, "{} is more than the 60s that are allowed", quoted(value));
  o.lock_delay = d;
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
    return fail(Errc::usage, "{} is neither kill, signal:SIG nor exec:CMD", quoted(value));
  }
  return {};
}

// A user who writes -k may mean --key.
Result<void> kill_after(Options& o, std::string_view value) {
  const auto done = duration<&Options::kill_after>(o, value);
  if (done || given_by_flag(o, "key")) return done;
  return fail(Errc::usage, "{}; did you mean --key {}?", done.error().message, printable(value));
}

Result<void> watch(Options& o, std::string_view value) {
  return positive_duration<&Options::watch>(o, value.empty() ? "2s" : value);
}

Result<void> tls_name(Options& o, std::string_view value) {
  if (!is_host(value))
    return fail(Errc::usage, "{} is neither the name of a host nor an address", quoted(value));
  return text<&Options::tls_name>(o, value);
}

Result<void> max_waiters(Options& o, std::string_view value) {
  return number<0, 1'000'000, &Options::max_waiters>(o, value);
}
Result<void> watch_pid(Options& o, std::string_view value) {
  // the greatest pid of any kernel
  return number<1, 1 << 22, &Options::watch_pid>(o, value);
}

// The allowed words of some options, in the order of the values of their fields.
constexpr const char log_formats[] = "text|json";
constexpr const char sort_orders[] = "key|age|waiters";
constexpr const char descendant_choices[] = "wait|kill|release";
constexpr const char foreground_choices[] = "auto|yes|no";

// The value must follow =. Otherwise --foreground would take a word of the command.
Result<void> foreground(Options& o, std::string_view value) {
  if (value.empty()) return fail(Errc::usage, "needs a value, as in --foreground=yes");
  return choice<foreground_choices, &Options::group>(o, value);
}

Result<void> status(Options& o, std::string_view value) {
  if (value.find_first_not_of("0123456789") == value.npos && !value.empty()) {
    o.status_file = {};
    return number<0, INT_MAX, &Options::status_fd>(o, value);
  }
  o.status_fd = -1;
  return text<&Options::status_file>(o, value);
}

Result<void> help(Options& o, std::string_view value) {
  if (!value.empty() && value != "all") return fail(Errc::usage, "{} is not all", quoted(value));
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
  auto& chosen = o.scenarios;
  const auto choose = [&](bench::Scenario s) {
    if (std::ranges::find(chosen, s) == chosen.end()) chosen.push_back(s);
  };
  for (;;) {
    const std::string_view name = value.substr(0, value.find(','));
    const auto found = bench::find_scenario(name);
    if (!found && name != "all")
      return fail(Errc::usage, "{} is not a scenario; allowed are {}", quoted(name),
                  all_scenarios());
    if (found) choose(*found);
    else
      for (const bench::ScenarioInfo& i : bench::scenarios()) choose(i.scenario);
    if (name.size() == value.size()) return {};
    value.remove_prefix(name.size() + 1);
  }
}

constexpr bool has_variable = true, no_variable = false;
constexpr std::string_view none{};  // no default
using namespace sets;
using G = Group;
using C = Choice;
using O = Options;

constexpr Option all_options[] = {
    {"key", 0, "K", keyed, G::subject,
     "the name to lock: 1 to 200 bytes of UTF-8; repeat it for several keys", key},
    {"key", 0, "K", inspect, G::subject,
     "the key or a pattern; K or PATTERN without --key is the same", inspected_key},
    {"handle", 0, "H", run | renew | release | check, G::subject,
     "the handle that acquire printed, or - to read it from standard input, or @FILE to read it "
     "from FILE (default: $DLOCK_HANDLE, if that handle is of this backend and recipe; run has no "
     "default)",
     text<&O::handle>},
    {"state", 0, "FILE", fence, G::subject, "stores the newest token; created if missing",
     text<&O::state>},
    {"token", 0, "N", release | check | fence, G::subject, "the fencing token of a grant",
     parsed<parse_token, &O::token>},
    {"force", 0, nullptr, release, G::subject,
     "remove a holder without its handle; asks which holder, unless --token or --yes is given",
     on<&O::force>},
    {"yes", 0, nullptr, release, G::subject, "with --force: remove every holder", on<&O::yes>},
    {"revoke", 0, nullptr, release, G::subject, "ask the holder to stop and release the lock",
     on<&O::revoke>},
    {"if-held", 0, nullptr, release, G::subject, "succeed even if the lock is not held",
     on<&O::if_held>},

    {"nonblock", 'n', nullptr, taking | fence, G::taking,
     "one try; busy at once when the lock is held", nonblock, has_variable, none, C::waiting},
    {"wait", 'w', "D", taking | fence, G::taking, "wait at most D; 0 is one try",
     duration<&O::wait>, has_variable, "for ever", C::waiting},
    {"wait", 'w', "D", release, G::subject,
     "with --revoke: wait at most D until the holder is gone", duration<&O::revoke_wait>},
    {"conflict-exit-code", 'E', "N", taking | fence, G::taking, "exit status when busy, 0 to 255",
     number<0, 255, &O::conflict_status>, has_variable, "75"},
    {"max-waiters", 0, "N", taking, G::taking, "busy at once when N wait already", max_waiters,
     has_variable},
    {"shared", 's', nullptr, taking, G::taking, "share the lock with other --shared holders",
     shared, has_variable, none, C::mode},
    {"limit", 0, "N", taking, G::taking,
     "take a permit: at most N holders at a time; N is 1 to 1000000", limit, has_variable, none,
     C::mode},
    {"lock-delay", 0, "D", taking, G::taking,
     "if this holder vanishes, block the lock for D, at most 60s", lock_delay, has_variable, "0"},
    {"reason", 0, "TEXT", taking, G::taking, "shown to waiters and in inspect",
     any_text<&O::reason>, has_variable},
    {"splay", 0, "D", taking, G::taking, "wait a random time up to D before asking",
     duration<&O::splay>, has_variable, "0"},

    {"command", 'c', "STR", run, G::job,
     "run STR with /bin/sh -c; what follows -- becomes $1 and so on", text<&O::shell_command>},
    {"kill-after", 'k', "D", run, G::job, "time from TERM (or --signal) to KILL", kill_after,
     has_variable, "ttl/5, at most 5s"},
    {"kill-after", 'k', "D", fence, G::job, "time from TERM (or --signal) to KILL",
     duration<&O::kill_after>, has_variable, "5s"},
    {"signal", 0, "SIG", jobs, G::job, "the end signal, sent on loss and by --max-run",
     parsed<parse_signal, &O::end_signal>, has_variable, "TERM"},
    {"max-run", 0, "D", jobs, G::job, "end the command after D, status 124", duration<&O::max_run>,
     has_variable, "0, no limit"},
    {"min-hold", 0, "D", run, G::job, "keep the lock for at least D after it was taken",
     duration<&O::min_hold>, has_variable},
    {"once-per", 0, "D|UNIT", run, G::job,
     "start at most once per D, or per calendar hour, day, week or month, by the store's clock; a "
     "further start counts as busy",
     parsed<run::OncePer::parse, &O::once_per>, has_variable},
    {"again", 0, nullptr, run, G::job,
     "with --once-per: start even if it has run already; the start is recorded", on<&O::again>},
    {"until-success", 0, nullptr, run, G::job,
     "with --once-per: a run that failed does not count, and the next may start",
     on<&O::until_success>},
    {"on-lost", 0, "WHAT", run, G::job,
     "when the lock is lost: kill the command, only send it signal:SIG, or run exec:CMD beside it",
     on_lost, has_variable, "kill"},
    {"foreground", 0, "=auto|yes|no", jobs, G::job,
     "whether the command stays in the process group of dlock; auto: at a terminal", foreground,
     has_variable, "auto"},
    {"descendants", 0, descendant_choices, jobs, G::job,
     "once the command has ended: wait for them, kill them, or give the lock back and leave them",
     choice<descendant_choices, &O::descendants>, has_variable, "wait"},
    {"watch-pid", 0, "PID", run, G::job,
     "when this process ends, end the command as if dlock got TERM", watch_pid, no_variable},
    {"publish-command", 0, nullptr, run, G::job, "show the command line to waiters and in inspect",
     on<&O::publish_command>},
    {"no-env", 0, nullptr, run, G::job, "set no DLOCK_ variables for the command", on<&O::no_env>},
    {"no-reentrant", 0, nullptr, run, G::job,
     "contend even for a key that an enclosing dlock holds", on<&O::no_reentrant>},
    {"status", 0, "FD|FILE", run, G::job,
     "write events, one JSON object per line, to a descriptor (digits alone) or append them to a "
     "file",
     status, has_variable},
    {"metrics-file", 0, "F", run, G::job,
     "keep figures for Prometheus in file F, which is replaced at the end", text<&O::metrics_file>,
     has_variable},
    {"explain", 0, nullptr, run, G::job, "print the time line and the guarantees; run nothing",
     on<&O::explain>},

    {"hold", 0, nullptr, acquire, G::result,
     "stay and hold the lock until standard input ends or a signal comes", on<&O::hold>},
    {"keep", 0, nullptr, acquire, G::result,
     "a process in the background keeps the lock until it is released or the caller ends",
     on<&O::keep>},
    {"watch-pid", 0, "PID", acquire, G::result,
     "with --keep: release the lock when this process, the caller, ends", watch_pid, no_variable,
     "the leader of the process group if it is an ancestor, else the parent"},
    {"max-hold", 0, "D", acquire, G::result, "with --keep: release the lock after D",
     positive_duration<&O::max_hold>, has_variable, "1h"},
    {"output", 0, "text|json|env", acquire, G::result,
     "what to print: the handle alone, JSON, or lines for eval", set_output, has_variable, "text"},
    {"output", 0, "text|json|csv", inspect, G::result, "what to print", set_output, has_variable,
     "text"},
    {"output", 0, "text|json", renew | release | check, G::result,
     "text prints nothing, because the exit status is the answer; json prints one object",
     set_output, has_variable, "text"},
    {"json", 'J', nullptr, run, G::result, "with --explain: one JSON object", on<&O::json>,
     no_variable, none, C::format},
    {"json", 'J', nullptr, acquire | renew | release | check | inspect, G::result,
     "one JSON object: --output json", on<&O::json>, no_variable, none, C::format},
    {"csv", 0, nullptr, inspect, G::result, "comma-separated values: --output csv", on<&O::csv>},
    {"columns", 'o', "COL,...", inspect, G::result,
     "the columns to show; +COL,... adds to the default ones", text<&O::columns>, has_variable,
     none, C::format},
    {"sort", 0, sort_orders, inspect, G::result,
     "order of a list: by key, the longest held first, or the most waiters first",
     choice<sort_orders, &O::sort>, has_variable, "key"},
    {"no-heading", 0, nullptr, inspect, G::result, "no heading and no summary", on<&O::no_heading>},
    {"watch", 0, "[D]", inspect, G::result,
     "repeat every D (default: 2s); at a terminal the output is redrawn until you press q; "
     "elsewhere each change prints one JSON line",
     watch},
    {"held", 0, nullptr, inspect, G::result,
     "only keys that are held, or kept back by a lock-delay", on<&O::held>},
    {"stale", 0, nullptr, inspect, G::result,
     "only keys with a holder that has vanished or whose lease has ended", on<&O::stale>},
    {"check", 0, nullptr, inspect, G::result,
     "print nothing; status 0 if free, 75 if held, 69 if unknown", on<&O::check>},
    {"doctor", 0, nullptr, inspect, G::result,
     "check whether the backend is fit for locks; status 1 if not", on<&O::doctor>},

    {"report", 0, nullptr, config, G::result,
     "add versions, kernel and names of variables for a bug report, without secrets",
     on<&O::report>},

    {"scenario", 0, "S,...", benching, G::subject,
     "uncontended, handoff, shared, limit, renew, crash or all", bench_scenarios, has_variable,
     "uncontended,handoff"},
    {"clients", 'c', "N", benching, G::subject,
     "the number of clients, each with its own connection", number<1, 10'000, &O::clients>,
     has_variable, "8"},
    {"duration", 'd', "D", benching, G::subject, "length of each measurement",
     positive_duration<&O::duration>, has_variable, "5s", C::length},
    {"ops", 'N', "N", benching, G::subject, "measure N grants instead of a duration",
     number<1, 1'000'000'000'000, &O::ops>, has_variable, none, C::length},
    {"hold", 0, "D", benching, G::subject, "keep the lock for D", duration<&O::hold_for>,
     has_variable, "0"},
    {"rate", 0, "R", benching, G::subject,
     "all clients together ask R times per second; latencies count from the scheduled time",
     number<1, 10'000'000, &O::rate>, has_variable, "as fast as possible"},
    {"repeat", 0, "N", benching, G::subject,
     "measure everything N times, and print median and range", number<1, 1000, &O::repeat>,
     has_variable, "1"},
    {"prefix", 0, "P", benching, G::subject,
     "prefix of the keys; refused if the store has keys below it", text<&O::prefix>, has_variable,
     "a random one"},
    {"output", 0, "text|json|csv", benching, G::result, "what to print", set_output, has_variable,
     "text"},
    {"html", 0, "FILE", benching, G::result, "write a page with charts, too", text<&O::html>,
     has_variable},
    {"progress", 'P', "D", benching, G::result, "print a line on standard error each D",
     positive_duration<&O::progress>, has_variable},
    {"no-progress", 0, nullptr, benching, G::result, "no progress bar on a terminal",
     on<&O::no_progress>},

    {"backend", 'b', "URL", stores | config, G::common, "where the locks are kept",
     text<&O::backend>, has_variable, "file:"},
    {"recipe", 0, "R", stores | config, G::common, "the way of locking; dlock --version lists them",
     text<&O::recipe>, has_variable},
    {"backend", 'b', "URL", benching, G::common,
     "where the locks are kept; may be repeated; ?password_file=F gives each its own password",
     added_text<&O::backends>, has_variable, "file:"},
    {"recipe", 0, "R", benching, G::common, "the ways of locking, or all; may be repeated",
     added_text<&O::recipes>, has_variable, "the default recipe of each backend"},
    {"ttl", 0, "D", with_backend, G::common, "how long the lock lasts without a renewal",
     positive_duration<&O::ttl>, has_variable, "30s"},
    {"op-timeout", 0, "D", with_backend, G::common, "time for one exchange with the store",
     positive_duration<&O::op_timeout>, has_variable, "ttl/6, at most 5s"},
    {"connect-timeout", 0, "D", with_backend, G::common, "how long to try to reach the store",
     positive_duration<&O::connect_timeout>, has_variable, "5s"},
    {"password-file", 0, "F", with_backend, G::common,
     "the password of the store: the first line of F, which must be private",
     text<&O::password_file>, has_variable},
    {"auth-file", 0, "F", with_backend, G::common,
     "the credentials for ZooKeeper, SCHEME:CREDENTIAL: the first line of F, which must be private",
     text<&O::auth_file>, has_variable},
    {"tls-ca", 0, "F", with_backend, G::common, "trusted certificate authorities", text<&O::tls_ca>,
     has_variable, "those of the system"},
    {"tls-cert", 0, "F", with_backend, G::common, "the client certificate", text<&O::tls_cert>,
     has_variable},
    {"tls-key", 0, "F", with_backend, G::common, "the private key of the client certificate",
     text<&O::tls_key>, has_variable},
    {"tls-name", 0, "HOST", with_backend, G::common,
     "the name to expect in the server's certificate, and to send", tls_name, has_variable,
     "the host of the URL"},
    {"tls-insecure", 0, nullptr, with_backend, G::common, "do not verify certificates (insecure)",
     on<&O::tls_insecure>},
    {"quiet", 'q', nullptr, everywhere, G::common, "print errors only", quiet, has_variable, none,
     C::verbosity},
    {"verbose", 'v', nullptr, everywhere, G::common, "print more messages; repeat it for more",
     verbose, has_variable, none, C::verbosity},
    {"log-format", 0, log_formats, everywhere, G::common,
     "messages on stderr: as text, or one JSON object per line", choice<log_formats, &O::log_json>,
     has_variable, "text"},
    {"trace", 0, "FILE", stores, G::common,
     "append a history of events to FILE, one JSON object per line", text<&O::trace>, has_variable},
    {"config", 0, "F", everywhere, G::common,
     "read this configuration file too; it overrides ~/.config/dlock/config.toml and "
     "/etc/dlock/config.toml",
     text<&O::config>, has_variable},
    {"profile", 0, "NAME", everywhere, G::common, "use [profile.NAME] of the configuration files",
     text<&O::profile>, has_variable},
    {"help", 0, "[all]", everywhere, G::common,
     "print this; --help=all prints every option; -h alone is the same as --help", help},
};

}  // namespace

std::span<const Option> option_table() noexcept { return all_options; }

bool reads(const Option& o, Verb v) noexcept {
  if (v != Verb::config) return o.has_variable && belongs(o, v);
  // `config` reads the first row of each name, and its own rows come first
  return o.has_variable && std::none_of(std::begin(all_options), &o, [&](const Option& earlier) {
           return earlier.has_variable && std::string_view(earlier.name) == o.name;
         });
}

}  // namespace dlock::cli
