// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <utility>
#include <vector>
#include "cli/command.hpp"
#include "cli/options/option_table.hpp"
#include "cli/options/verbs.hpp"
#include "cli/say.hpp"
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "core/url.hpp"
#include "report/lines.hpp"

namespace dlock::cli {
namespace {

// Returns a basic string of TOML. Unprintable characters are escaped.
std::string toml_text(std::string_view value) {
  return fmt::format("\"{}\"", run::escaped(printable(value)));
}

std::string shown(const Given& g) {
  if (!g.option->argument) return g.off ? "false" : "true";
  if (std::string_view(g.option->name) != "backend") return toml_text(g.value);
  const auto url = Url::parse(g.value);
  return toml_text(url ? url->redacted() : "?");
}

std::string source(const Given& g) {
  if (g.source == Source::environment) return environment_name(g.option->name);
  if (g.source == Source::config && !g.backend.empty()) {
    const auto url = Url::parse(g.backend);
    return fmt::format("{}, for {} alone", g.where, url ? url->redacted() : "?");
  }
  if (g.source == Source::config) return std::string(g.where);
  return "command line";
}

std::string_view default_text(const Option& o) {
  if (!o.default_text.empty()) return o.default_text;
  return o.argument ? "none" : "false";
}

// Returns the commands that read an option of this name.
Verbs readers(std::string_view name) {
  Verbs all = 0;
  for (const Option& row : option_table())
    if (row.has_variable && name == row.name) all |= row.verbs;
  return all & ~bit(Verb::config);
}

// Returns "run, acquire and fence", or "all commands but fence".
std::string names_of(Verbs wanted) {
  std::vector<std::string_view> in, out;
  for (const VerbInfo& v : verbs())
    if (v.verb != Verb::config) ((wanted & bit(v.verb)) != 0 ? in : out).push_back(v.name);
  if (out.size() < 2)
    return out.empty() ? "all commands" : fmt::format("all commands but {}", out.front());
  std::string text;
  for (const std::string_view& name : in)
    text += fmt::format("{}{}",
                        &name == in.data()    ? ""
                        : &name == &in.back() ? " and "
                                              : ", ",
                        name);
  return text;
}

// Returns every option that a file may set, as TOML. First come the options that are set, with
// value and source. Then the other options follow as comments with their defaults; options that
// more commands read come first. Passwords in URLs are redacted. No secret file is read.
std::string config_text(const ConfigOptions& o) {
  std::string text;
  std::map<Verbs, std::string> unset;  // by the commands that read these options
  if (!o.backend_required_by.empty())
    text += fmt::format("require-backend = true  # {}\n", o.backend_required_by);
  for (const Option& row : option_table()) {
    if (!reads(row, o.verb)) continue;
    const auto set = std::ranges::find(o.values, &row, &Given::option);
    const bool required = !o.backend_required_by.empty() && std::string_view(row.name) == "backend";
    if (set != o.values.end())
      text += fmt::format("{} = {}  # {}\n", row.name, shown(*set), source(*set));
    else
      unset[readers(row.name)] +=
          fmt::format("# {} = {}\n", row.name, required ? "none, and required" : default_text(row));
  }
  std::vector<std::pair<Verbs, std::string>> groups(unset.begin(), unset.end());
  std::ranges::stable_sort(groups, std::greater{},
                           [](const auto& g) { return std::popcount(g.first); });
  for (const auto& [of, lines] : groups)
    text += fmt::format("{}# not set, of {}:\n{}", text.empty() ? "" : "\n", names_of(of), lines);
  return text;
}

// Returns config_text() and facts for a bug report, without secrets. Sends no request to a store.
std::string debug_report(const ConfigOptions& o) {
  std::string text = version_text();
  utsname host{};
  if (::uname(&host) == 0)
    text += fmt::format("kernel: {} {} {}\n", host.sysname, host.release, host.machine);
  text += fmt::format("user: uid {}, euid {}\n", ::getuid(), ::geteuid());
  text +=
      fmt::format("/dev/tty: {}\n", ::access("/dev/tty", R_OK | W_OK) == 0 ? "there" : "not there");
  text += fmt::format("/proc lists children: {}\n",
                      ::access("/proc/thread-self/children", R_OK) == 0 ? "yes" : "no");
  const bool unified = ::access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0,
             hybrid = ::access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) == 0;
  text += fmt::format("cgroup v2: {}\n", unified ? "yes" : hybrid ? "yes, beside v1" : "no");
  text += "variables that matter, names alone:";
  for (char** e = ::environ; *e; ++e) {
    const std::string_view name = std::string_view(*e).substr(0, std::string_view(*e).find('='));
    const bool matters = name.starts_with("DLOCK_") || name.starts_with("XDG_") ||
                         name.starts_with("SSL_") || name == "HOME" || name == "TZ" ||
                         name == "REDISCLI_AUTH" || name == "MYSQL_PWD" ||
                         (name.starts_with("PG") && name != "PGID");
    if (matters) text += " " + printable(name);
  }
  return text + "\n\n" + config_text(o);
}

}  // namespace

Result<run::Outcome> command_config(const ConfigOptions& o) {
  TRY_VOID(print(o.report ? debug_report(o) : config_text(o)));
  return ended(status_ok);
}

}  // namespace dlock::cli
