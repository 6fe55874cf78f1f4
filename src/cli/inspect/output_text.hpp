// SPDX-License-Identifier: Apache-2.0
// What inspect prints. Text from others (keys, names, reasons) goes through printable(). Unknown
// values are "?".
#pragma once
#include <string>
#include <vector>
#include "cli/inspect/columns.hpp"
#include "cli/store.hpp"

namespace dlock::cli {

// One key in full, for people. `starts`: of --once-per, or why they are not known; empty where the
// recipe notes none.
std::string text_of_key(const KeyView&, const OpenStore&, const Result<Starts>& starts = Starts{});
std::string text_of_unknown_key(const Key&);

// Tables and CSV.
std::string table_of(const std::vector<KeyView>&, const std::vector<const Column*>&, bool heading);
std::string csv_of(const std::vector<KeyView>&, const std::vector<const Column*>&, bool heading);
std::string table_of_unknown(const Key&, const std::vector<const Column*>&, const Options&);

}  // namespace dlock::cli
