// SPDX-License-Identifier: Apache-2.0
// --fail-if: a bound that a figure must not pass, for CI.
//
//   [BACKEND.[RECIPE.]][SCENARIO.]METRIC OP VALUE      redis.fair.handoff.handoff.p99>5ms   acquire.p50>=300us   errors>0
//
// OP is > >= < <= ; VALUE a number, for a latency a duration with its unit. Every run that the names before METRIC match is looked at.
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

  static Result<FailIf> parse(std::string_view text);  // Errc::usage: names the text and what is allowed

  // The names are those of the run, and its scenario has such a figure.
  bool matches(const Figures&) const;
  // Of a run that matches. True: it holds, so the run fails; as one does that was to have the figure and has not a single sample.
  bool holds(const Figures&) const;
  // The figure, for people: "4.00ms", "1 234", "none".
  std::string seen(const Figures&) const;

 private:
  std::optional<double> value(const Figures&) const;
};

}  // namespace dlock::bench
