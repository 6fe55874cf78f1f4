// SPDX-License-Identifier: Apache-2.0
// The results, for people and for programs.
#pragma once
#include <string>
#include "bench/bench.hpp"
#include "bench/figures.hpp"
#include "util/table.hpp"

namespace dlock::bench {

std::string text_of(const Plan&, const Report&, std::string_view version);
// One JSON object on one line. Its names are stable.
std::string json_of(const Plan&, const Report&, std::string_view version);
std::string csv_of(const Report&);
// One page that loads no other file.
std::string html_of(const Plan&, const Report&, std::string_view version);

// The tables of the text and HTML reports. The text fits into 80 columns; JSON and CSV have the
// figures that are left out here.
struct Table {
  std::string title;
  // Texts above `head`, one for each column. Neighbours with the same text are merged. A column
  // without a group has an empty text.
  Row groups;
  Row head;
  std::vector<Row> rows;             // the first cell names the target
  std::vector<std::string> remarks;  // what was not measured, and what a comparison cannot show
};
std::vector<Table> tables_of(const Plan&, const Report&);
// Returns what was measured: "8 clients", "5s each after 1s warm-up", ...
std::vector<std::string> settings(const Plan&);
// Returns lines that begin with FAIL, ERROR, note or PASS. Each line gives the reason.
std::vector<std::string> verdict(const Report&);
// Returns one sentence that compares, in each scenario, the fastest target with the next and the
// slowest. Empty: there is nothing to compare, or the figures are invalid.
std::string summary(const Plan&, const Report&);
std::string target_name(const Figures&);
// Returns "12 300" or, after several rounds, "12 300 ±4%", a range that includes all rounds.
std::string rate(const Figures&);

}  // namespace dlock::bench
