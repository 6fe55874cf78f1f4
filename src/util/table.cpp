// SPDX-License-Identifier: Apache-2.0
#include "util/table.hpp"
#include <algorithm>

namespace dlock {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string aligned(const std::vector<Row>& rows, TableOf of) {
  const bool figures = of == TableOf::figures;
  const auto padded = [&](const Row& row, std::size_t i) { return figures || i + 1 < row.size(); };
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      if (padded(row, i)) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(padded(row, i) ? widths[i] - columns_of(row[i]) : 0, ' ');
      if (i > 0) text += "  ";
      text += figures && i > 0 ? padding + row[i] : row[i] + padding;
    }
    text += '\n';
  }
  return text;
}

std::string csv_line(const Row& row) {
  std::string text;
  for (const std::string& field : row)
    text.append(&field == row.data() ? "" : ",").append(csv_field(field));
  return text + '\n';
}

}  // namespace dlock
