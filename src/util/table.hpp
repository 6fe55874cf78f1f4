// SPDX-License-Identifier: Apache-2.0
// Formats rows of cells, as a table for people and as CSV. Pure functions.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dlock {

using Row = std::vector<std::string>;

// Counts code points. Wide characters make a table ragged, but not wrong.
std::size_t columns_of(std::string_view text);

// Makes columns as wide as their widest cell, two spaces apart. `text`: the last cell of a row may
// have any length. `figures`: every column but the first is aligned to the right.
enum class TableOf { text, figures };
std::string aligned(const std::vector<Row>&, TableOf = TableOf::text);

std::string csv_line(const Row&);  // RFC 4180

}  // namespace dlock
