// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>
#include "cli/options/options.hpp"
#include "core/backend.hpp"

namespace dlock::cli {

// The columns of a table. Errc::usage (or config, by the source of the name) lists the known ones.
struct Column {
  std::string_view name;
  bool usual;                           // shown unless --columns says otherwise
  std::string (*text)(const KeyView&);  // for people
  std::string (*csv)(const KeyView&);   // for programs: RFC 3339, milliseconds, empty if absent
  std::string_view csv_name{};          // with its unit; empty: name
};
Result<std::vector<const Column*>> choose_columns(const Options&);

}  // namespace dlock::cli
