// SPDX-License-Identifier: Apache-2.0
// What inspect prints. Text from others (keys, names, reasons) goes through printable(). An unknown
// value is "?", and in JSON null. An unknown state is "unknown" in JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>
#include "cli/store.hpp"

namespace dlock::cli {

// Returns the full view of one key, for people. `starts`: the records of --once-per, or why they
// are unknown; empty: the recipe keeps none.
std::string text_of_key(const KeyView&, const OpenStore&,
                        const Result<RunStarts>& starts = RunStarts{});
std::string text_of_unknown_key(const Key&);

// Returns the JSON of one key, for programs. The table and CSV are made from it.
nlohmann::ordered_json json_of(const KeyView&);
// Returns one JSON object, with its newline. `unknown_reason`: why the list is incomplete; empty:
// it is complete.
std::string json_of_key(const KeyView&, const OpenStore&, const Result<RunStarts>&);
std::string json_of_list(const std::vector<KeyView>&, const OpenStore&,
                         const std::string& unknown_reason);
// Returns the JSON for a store that did not reply. It says nothing about single keys.
std::string json_of_unknown(const CommonOptions&, const OpenStore&, const Error&);

// A column of the table and of CSV.
struct Column {
  std::string_view name;
  bool usual;           // shown unless --columns says otherwise
  std::string_view at;  // the name of a field in the key's JSON; empty: use `of`
  std::string (*of)(const KeyView&, bool csv) = nullptr;
  // What null in that field means. True: there is no value, shown as "-". False: the value is
  // unknown, shown as "?".
  bool known = true;
};
using Columns = std::vector<const Column*>;
// Returns the columns to show. Errc::usage: a name is not a column; Errc::config: the same, but the
// name comes from a file or variable. The message lists all columns.
Result<Columns> choose_columns(const InspectOptions&);
// Returns a table for people or, with --csv, for programs: times by RFC 3339, durations in
// milliseconds, and nothing for a value that is absent. If the table is wider than `width`, it
// loses the columns TOKEN, MODE and ASKED, one after the other, until it fits. It keeps a column
// that --columns names.
std::string table_of(const std::vector<KeyView>&, const Columns&, const InspectOptions&,
                     std::size_t width = SIZE_MAX);
std::string table_of_unknown(const Key&, const Columns&, const InspectOptions&);

// inspect --doctor: returns whether a finding makes the store unfit for locks.
bool unfit(const std::vector<Finding>&) noexcept;
std::string text_of_findings(const std::vector<Finding>&, const OpenStore&);
std::string json_of_findings(const std::vector<Finding>&, const OpenStore&);

}  // namespace dlock::cli
