// SPDX-License-Identifier: Apache-2.0
// --fail-if: a bound on a figure, for CI.
//
//   [BACKEND.[RECIPE.]][SCENARIO.]METRIC OP VALUE      redis.fair.handoff.handoff.p99>5ms
//   acquire.p50>=300us   errors>0
//
// OP is > >= < <= ; VALUE a number, for a latency a duration with its unit. Applies to every run
// that the names before METRIC match.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/error.hpp"

namespace dlock::bench {

struct Figures;

struct FailIf {
  std::string text;
  std::vector<std::string> names;  // before the metric
  std::string metric;              // "acquire.p99"
  std::string op;
  double bound = 0;  // latencies: microseconds

  // Errc::usage: names the text and what is allowed
  static Result<FailIf> parse(std::string_view text);

  // The names are those of the run, and its scenario has such a figure.
  bool matches(const Figures&) const;
  // For a matching run. True: the expression holds, so the run fails; also for a figure without a
  // single sample.
  bool holds(const Figures&) const;
  // The figure, formatted: "4.00ms", "1 234", "none".
  std::string seen(const Figures&) const;

 private:
  std::optional<double> value(const Figures&) const;
};

}  // namespace dlock::bench
