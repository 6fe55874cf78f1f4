// SPDX-License-Identifier: Apache-2.0
// What inspect prints. Text from others (keys, names, reasons) goes through printable(). An unknown
// value is "?", in JSON null; an unknown state is "unknown" in JSON.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>
#include "cli/store.hpp"

namespace dlock::cli {

// The full view of one key, for people. `starts`: the records of --once-per, or why they are
// unknown; empty: the recipe keeps none.
std::string text_of_key(const KeyView&, const OpenStore&,
                        const Result<RunStarts>& starts = RunStarts{});
std::string text_of_unknown_key(const Key&);

// The JSON of one key, for programs. The table and CSV are made from it.
nlohmann::ordered_json json_of(const KeyView&);
// One JSON object, with its newline. `unknown_reason`: why it is incomplete; empty: it is complete.
std::string json_of_key(const KeyView&, const OpenStore&, const Result<RunStarts>&);
std::string json_of_list(const std::vector<KeyView>&, const OpenStore&,
                         const std::string& unknown_reason);
// The JSON for a store that did not answer. It says nothing about single keys.
std::string json_of_unknown(const CommonOptions&, const OpenStore&, const Error&);

// A column of the table and of CSV.
struct Column {
  std::string_view name;
  bool usual;           // shown unless --columns says otherwise
  std::string_view at;  // the field in the key's JSON; empty: use `of`
  std::string (*of)(const KeyView&, bool csv) = nullptr;
  bool known = true;  // null in that field means: true: unknown, "?"; false: none, "-"
};
using Columns = std::vector<const Column*>;
// Errc::usage, or Errc::config by the source of the name; the message lists the known columns.
Result<Columns> choose_columns(const InspectOptions&);
// A table for people, or with --csv for programs: RFC 3339, milliseconds, empty if absent. A table
// wider than `width` loses columns that --columns does not name, the token first.
std::string table_of(const std::vector<KeyView>&, const Columns&, const InspectOptions&,
                     std::size_t width = SIZE_MAX);
std::string table_of_unknown(const Key&, const Columns&, const InspectOptions&);

// inspect --doctor: whether a finding makes the store unfit for locks.
bool unfit(const std::vector<Finding>&) noexcept;
std::string text_of_findings(const std::vector<Finding>&, const OpenStore&);
std::string json_of_findings(const std::vector<Finding>&, const OpenStore&);

}  // namespace dlock::cli
