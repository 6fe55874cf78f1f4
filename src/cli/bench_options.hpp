// SPDX-License-Identifier: Apache-2.0
// The options of `dlock bench`, and the functions of the option table that set them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "bench/fail_if.hpp"
#include "bench/scenario.hpp"

namespace dlock::cli {

struct Options;

struct BenchOptions {
  enum class Format { text, json, csv, markdown };

  std::vector<std::string_view> backends, recipes;  // empty: the default one
  std::vector<bench::Scenario> scenarios;           // empty: uncontended, handoff
  unsigned clients = 8, repeat = 1;
  std::optional<Duration> duration;
  std::uint64_t ops = 0, rate = 0;
  Duration hold{}, progress{};
  bool no_progress = false;
  std::string_view prefix, html;
  Format format = Format::text;
  std::vector<bench::FailIf> fail_if;
};

namespace bench_set {

Result<void> backend(Options&, std::string_view);
Result<void> recipe(Options&, std::string_view);
Result<void> scenario(Options&, std::string_view);
Result<void> clients(Options&, std::string_view);
Result<void> duration(Options&, std::string_view);
Result<void> ops(Options&, std::string_view);
Result<void> hold(Options&, std::string_view);
Result<void> rate(Options&, std::string_view);
Result<void> repeat(Options&, std::string_view);
Result<void> prefix(Options&, std::string_view);
Result<void> output(Options&, std::string_view);
Result<void> html(Options&, std::string_view);
Result<void> fail_if(Options&, std::string_view);
Result<void> progress(Options&, std::string_view);
Result<void> no_progress(Options&, std::string_view);

}  // namespace bench_set
}  // namespace dlock::cli
