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

// The content of text and HTML.
struct Table {
  std::string title;
  Row head;
  std::vector<Row> rows;             // the first cell names the target
  std::vector<std::string> remarks;  // ratios
};
std::vector<Table> tables_of(const Plan&, const Report&);
std::string headline(const Plan&, std::string_view version);
std::vector<std::string> verdict(const Report&);  // FAIL or PASS, with the reason
std::string target_name(const Figures&);

}  // namespace dlock::bench
