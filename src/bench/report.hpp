// SPDX-License-Identifier: Apache-2.0
// The results, for people and for programs.
#pragma once
#include <string>
#include "bench/bench.hpp"
#include "bench/figures.hpp"
#include "util/table.hpp"

namespace dlock::bench {

std::string text_of(const Plan&, const Report&, std::string_view version);
// one object in one line; names are stable
std::string json_of(const Plan&, const Report&, std::string_view version);
std::string csv_of(const Report&);
// one page that loads nothing
std::string html_of(const Plan&, const Report&, std::string_view version);

// The content of text and HTML. As text it fits 80 columns: JSON and CSV have the other figures.
struct Table {
  std::string title;
  Row groups;  // above the head, the same for neighbours that belong together; empty: none
  Row head;
  std::vector<Row> rows;             // the first cell names the target
  std::vector<std::string> remarks;  // what is not measured, and what a comparison leaves out
};
std::vector<Table> tables_of(const Plan&, const Report&);
// What was measured: "8 clients", "5s each after 1s warm-up", ...
std::vector<std::string> settings(const Plan&);
std::vector<std::string> verdict(const Report&);  // FAIL or PASS, with the reason
// One sentence: in each scenario the fastest beside the next and the slowest. Empty: there is
// nothing to compare, or the figures are no good.
std::string summary(const Plan&, const Report&);
std::string target_name(const Figures&);
std::string rate(const Figures&);  // "12 300", or with several rounds "12 300 ±4%": all are within

}  // namespace dlock::bench
