// SPDX-License-Identifier: Apache-2.0
#include "bench/fail_if.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include "bench/figures.hpp"
#include "bench/text.hpp"
#include "core/duration.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace dlock::bench {
namespace {

struct Metric {
  std::string_view name;
  std::optional<double> (*of)(const Figures&);
};

constexpr Metric metrics[] = {
    {"grants_per_s", [](const Figures& f) -> std::optional<double> { return f.grants_per_s(); }},
    {"rtt", [](const Figures& f) -> std::optional<double> { return in_us(f.rtt); }},
    {"fairness", [](const Figures& f) -> std::optional<double> { return f.fairness(); }},
    {"overtakes",
     [](const Figures& f) -> std::optional<double> {
       return static_cast<double>(f.max_overtakes);
     }},
    {"commands_per_grant",
     [](const Figures& f) -> std::optional<double> { return f.commands_per_grant(); }},
    {"wakeups_per_grant", [](const Figures& f) { return f.wakeups_per_grant(); }},
    {"starved",
     [](const Figures& f) -> std::optional<double> { return static_cast<double>(f.starved); }},
    {"leases", [](const Figures& f) { return f.leases_kept(); }},
    {"errors",
     [](const Figures& f) -> std::optional<double> { return static_cast<double>(f.errors); }},
    {"overlaps",
     [](const Figures& f) -> std::optional<double> { return static_cast<double>(f.overlaps); }},
};

const Metric* find_metric(std::string_view name) {
  for (const Metric& m : metrics)
    if (m.name == name) return &m;
  return nullptr;
}
const Quantile* find_quantile(std::string_view name) {
  for (const Quantile& q : quantiles)
    if (q.name == name) return &q;
  return nullptr;
}
std::optional<std::size_t> find_latency(std::string_view name) {
  const auto* at = std::find(latency_names.begin(), latency_names.end(), name);
  return at == latency_names.end() ? std::nullopt
                                   : std::optional<std::size_t>(at - latency_names.begin());
}

std::string allowed() {
  std::string text;
  for (const Metric& m : metrics) text += fmt::format("{}, ", m.name);
  for (const std::string_view l : latency_names)
    text += fmt::format("{}.p99{}", l, l == latency_names.back() ? "" : ", ");
  return text;
}

// Whether measurements of that scenario have such a figure.
bool has(Scenario s, std::string_view figure) {
  if (figure == "renew" || figure == "leases") return s == Scenario::renew;
  if (figure == "takeover") return s == Scenario::crash;
  if (figure == "handoff") return contended(s);
  if (figure == "acquire" || figure == "release")
    return s != Scenario::renew && s != Scenario::crash;
  if (figure == "grants_per_s" || figure == "fairness" || figure == "overtakes" ||
      figure == "starved")
    return s != Scenario::crash;
  return true;
}

bool is_time(std::string_view metric) { return metric == "rtt" || metric.find('.') != metric.npos; }

Result<double> number(std::string_view value) {
  const auto n = parse_number<double>(value);
  if (!n) return fail(Errc::usage, "is not a number");
  return *n;
}

// A duration to the nanosecond: `500us` and `1.5ms` besides the forms of parse_duration.
Result<double> microseconds(std::string_view value) {
  if (value.ends_with("us")) return number(value.substr(0, value.size() - 2));
  if (value.find_first_not_of("0123456789.") == value.npos && value != "0")
    return fail(Errc::usage, "needs a unit: us, ms, s");
  const auto d = parse_duration(value);
  if (!d) return fail(Errc::usage, "is no time; allowed are 500us, 5ms, 1.5s");
  return static_cast<double>(d->count());
}

}  // namespace

Result<FailIf> FailIf::parse(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return fail(Errc::usage, fmt::format("{}: {}", quoted(text, 120), why));
  };
  const std::size_t at = text.find_first_of("<>");
  if (at == text.npos || at == 0)
    return wrong("must be [BACKEND.[RECIPE.]][SCENARIO.]METRIC, then > >= < or <=, then a value");
  FailIf f;
  f.text = text;
  f.op = text.substr(at, text.substr(at + 1).starts_with('=') ? 2 : 1);
  const std::string_view value = text.substr(at + f.op.size());

  std::vector<std::string> words(1);
  for (const char c : text.substr(0, at)) {
    if (c == '.') words.emplace_back();
    else words.back() += c;
  }
  const bool is_latency =
      words.size() > 1 && find_quantile(words.back()) && find_latency(words[words.size() - 2]);
  const std::size_t taken = is_latency ? 2 : 1;
  if (!is_latency && !find_metric(words.back()))
    return wrong(fmt::format("the metric is none of {}", allowed()));
  f.metric = is_latency ? words[words.size() - 2] + "." + words.back() : words.back();
  words.resize(words.size() - taken);
  f.names = std::move(words);

  const auto bound = is_time(f.metric) ? microseconds(value) : number(value);
  if (!bound) return wrong(fmt::format("the value {} {}", quoted(value), bound.error().message));
  f.bound = *bound;
  return f;
}

bool FailIf::matches(const Figures& f) const {
  if (!f.skipped.empty() || !has(f.scenario, std::string_view(metric).substr(0, metric.find('.'))))
    return false;
  if (metric == "wakeups_per_grant" && !f.wakes) return false;
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == f.backend || name == f.recipe || name == name_of(f.scenario);
  });
}

std::optional<double> FailIf::value(const Figures& f) const {
  if (const Metric* m = find_metric(metric)) return m->of(f);
  const std::size_t dot = metric.find('.');
  const Histogram& h = f.latency[*find_latency(std::string_view(metric).substr(0, dot))];
  if (h.count() == 0) return std::nullopt;
  return in_us(h.percentile(find_quantile(std::string_view(metric).substr(dot + 1))->per_100000));
}

bool FailIf::holds(const Figures& f) const {
  const auto v = value(f);
  if (!v) return true;
  if (op == ">") return *v > bound;
  if (op == ">=") return *v >= bound;
  if (op == "<") return *v < bound;
  return *v <= bound;
}

std::string FailIf::seen(const Figures& f) const {
  const auto v = value(f);
  if (!v) return "none";
  return is_time(metric) ? short_time(Nanoseconds{static_cast<std::int64_t>(*v * 1000)})
                         : grouped(*v);
}

}  // namespace dlock::bench
