// SPDX-License-Identifier: Apache-2.0
// What inspect prints. Text from others (keys, names, reasons) goes through printable(). Unknown
// values are "?", in JSON null; an unknown state is "unknown" there.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>
#include "cli/store.hpp"

namespace dlock::cli {

// One key in full, for people. `starts`: of --once-per, or why they are not known; empty where the
// recipe notes none.
std::string text_of_key(const KeyView&, const OpenStore&, const Result<Starts>& starts = Starts{});
std::string text_of_unknown_key(const Key&);

// What programs read of a key: the model of the other outputs, too.
nlohmann::ordered_json json_of(const KeyView&);
// One object, with its newline. `unread`: why it is incomplete; empty: it is complete.
std::string json_of_key(const KeyView&, const OpenStore&, const Result<Starts>&);
std::string json_of_list(const std::vector<KeyView>&, const OpenStore&, const std::string& unread);
// Nothing is said about keys that were not seen.
std::string json_of_unknown(const Options&, const OpenStore&, const Error&);

// A column of the table and of CSV.
struct Column {
  std::string_view name;
  bool usual;           // shown unless --columns says otherwise
  std::string_view at;  // where it is in the JSON of the key; empty: what `of` says
  std::string (*of)(const KeyView&, bool csv) = nullptr;
  bool known = true;  // false: null there means unknown, "?"; else there is none, "-"
};
using Columns = std::vector<const Column*>;
// Errc::usage (or config, by the source of the name) lists the known ones.
Result<Columns> choose_columns(const Options&);
// With --csv for programs: RFC 3339, milliseconds, empty if absent. A table that is wider than
// `width` loses columns that --columns does not name, the token first.
std::string table_of(const std::vector<KeyView>&, const Columns&, const Options&,
                     std::size_t width = SIZE_MAX);
std::string table_of_unknown(const Key&, const Columns&, const Options&);

// inspect --doctor: what the backend found out about its store.
bool unfit(const std::vector<Finding>&) noexcept;
std::string text_of_findings(const std::vector<Finding>&, const OpenStore&);
std::string json_of_findings(const std::vector<Finding>&, const OpenStore&);

}  // namespace dlock::cli
