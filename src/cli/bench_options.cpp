// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_options.hpp"
#include <fmt/format.h>
#include <algorithm>
#include "cli/options.hpp"
#include "cli/values.hpp"
#include "core/duration.hpp"

namespace dlock::cli::bench_set {
namespace {

using namespace std::chrono_literals;

Result<void> text(std::string_view& to, std::string_view value) {
  if (value.empty()) return fail(Errc::usage, "must not be empty");
  to = value;
  return {};
}

template <class Number>
Result<void> number(Number& to, std::string_view value, std::uint64_t most) {
  const auto n = parse_number(value, 1, most);
  if (!n) return fail(n.error());
  to = static_cast<Number>(*n);
  return {};
}

Result<Duration> positive(std::string_view value) {
  const auto d = parse_duration(value);
  if (d && *d <= 0us) return fail(Errc::usage, fmt::format("{} must be longer than 0", quoted(value)));
  return d;
}

Result<void> add(std::vector<std::string_view>& to, std::string_view value) {
  if (value.empty()) return fail(Errc::usage, "must not be empty");
  if (std::find(to.begin(), to.end(), value) != to.end()) return fail(Errc::usage, fmt::format("{} twice", quoted(value)));
  to.push_back(value);
  return {};
}

std::string all_scenarios() {
  std::string names;
  for (const bench::ScenarioInfo& i : bench::scenarios()) names += fmt::format("{}, ", i.name);
  return names + "all";
}

}  // namespace

Result<void> backend(Options& o, std::string_view value) { return add(o.bench.backends, value); }
Result<void> recipe(Options& o, std::string_view value) { return add(o.bench.recipes, value); }

Result<void> scenario(Options& o, std::string_view value) {
  auto& chosen = o.bench.scenarios;
  const auto choose = [&](bench::Scenario s) {
    if (std::find(chosen.begin(), chosen.end(), s) == chosen.end()) chosen.push_back(s);
  };
  for (;;) {
    const std::string_view name = value.substr(0, value.find(','));
    const auto found = bench::find_scenario(name);
    if (!found && name != "all")
      return fail(Errc::usage, fmt::format("{} is not a scenario; allowed are {}", quoted(name), all_scenarios()));
    if (found) choose(*found);
    else
      for (const bench::ScenarioInfo& i : bench::scenarios()) choose(i.scenario);
    if (name.size() == value.size()) return {};
    value.remove_prefix(name.size() + 1);
  }
}

Result<void> clients(Options& o, std::string_view value) { return number(o.bench.clients, value, 10'000); }
Result<void> ops(Options& o, std::string_view value) { return number(o.bench.ops, value, 1'000'000'000'000); }
Result<void> rate(Options& o, std::string_view value) { return number(o.bench.rate, value, 10'000'000); }
Result<void> repeat(Options& o, std::string_view value) { return number(o.bench.repeat, value, 1000); }

Result<void> duration(Options& o, std::string_view value) {
  const auto d = positive(value);
  if (!d) return fail(d.error());
  o.bench.duration = *d;
  return {};
}
Result<void> progress(Options& o, std::string_view value) {
  const auto d = positive(value);
  if (!d) return fail(d.error());
  o.bench.progress = *d;
  return {};
}
Result<void> hold(Options& o, std::string_view value) {
  const auto d = parse_duration(value);
  if (!d) return fail(d.error());
  o.bench.hold = *d;
  return {};
}

Result<void> prefix(Options& o, std::string_view value) { return text(o.bench.prefix, value); }
Result<void> html(Options& o, std::string_view value) { return text(o.bench.html, value); }

Result<void> output(Options& o, std::string_view value) {
  using F = BenchOptions::Format;
  if (value == "text") o.bench.format = F::text;
  else if (value == "json") o.bench.format = F::json;
  else if (value == "csv") o.bench.format = F::csv;
  else if (value == "markdown") o.bench.format = F::markdown;
  else return fail(Errc::usage, fmt::format("{} is neither text, json, csv nor markdown", quoted(value)));
  return {};
}

Result<void> fail_if(Options& o, std::string_view value) {
  auto e = bench::FailIf::parse(value);
  if (!e) return fail(e.error());
  o.bench.fail_if.push_back(std::move(*e));
  return {};
}

Result<void> no_progress(Options& o, std::string_view) {
  o.bench.no_progress = true;
  return {};
}

}  // namespace dlock::cli::bench_set
