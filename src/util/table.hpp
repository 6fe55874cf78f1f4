// SPDX-License-Identifier: Apache-2.0
// Rows of cells as a table for people, and as CSV.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dlock {

using Row = std::vector<std::string>;

// In code points: wide characters make a ragged table, never a wrong one.
std::size_t columns_of(std::string_view text);

// Columns two spaces apart, as wide as their widest cell. `text`: the last cell of a row may be of
// any length. `figures`: every column but the first ends at the right.
enum class TableOf { text, figures };
std::string aligned(const std::vector<Row>&, TableOf = TableOf::text);

std::string csv_line(const Row&);  // RFC 4180

}  // namespace dlock
