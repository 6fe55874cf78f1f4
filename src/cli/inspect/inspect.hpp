// SPDX-License-Identifier: Apache-2.0
// The output of inspect. Text from others (keys, names, reasons) goes through printable(). Unknown
// values are "?".
#pragma once
#include <string>
#include <vector>
#include "cli/options/options.hpp"
#include "cli/store.hpp"

namespace dlock::cli {

enum class KeyState {
  held,
  delayed,  // the holder has vanished and its lock-delay still runs: the key is not granted
  stale,    // only records whose lease has ended
  free,
};
KeyView free_key(const Key&);               // the view of an unknown key
bool never_taken(const KeyView&) noexcept;  // the store has no record of a grant
KeyState state_of(const KeyView&) noexcept;
std::string_view state_name(KeyState) noexcept;
bool has_stale_holder(const KeyView&) noexcept;  // vanished, or its lease has ended

// Since the holder's request, by the clocks of its host and ours; nothing if that is unknown or in
// the future.
std::optional<Duration> age(const Identity&);

// One key in full, for people.
std::string text_of_key(const KeyView&, const OpenStore&);
// The last start of --once-per and when the next is possible, as more lines of text_of_key. Empty:
// none is noted.
std::string text_of_starts(const Starts&);
std::string text_of_unknown_key(const Key&);

// One object, with its newline. `error`: why the result is incomplete; then nothing is said about
// unseen keys.
// `starts`: null where the recipe notes none, or the store did not say.
std::string json_of_key(const KeyView&, const OpenStore&, const std::optional<Starts>& = {});
std::string json_of_list(const std::vector<KeyView>&, const OpenStore&);
std::string json_of_unknown(const Options&, const OpenStore&, const Error&);

// --doctor
bool unfit(const std::vector<Finding>&) noexcept;
std::string text_of_findings(const std::vector<Finding>&, const OpenStore&);
std::string json_of_findings(const std::vector<Finding>&, const OpenStore&);

// The columns of a table. Errc::usage (or config, by the source of the name) lists the known ones.
struct Column {
  std::string_view name;
  bool usual;                           // shown unless --columns says otherwise
  std::string (*text)(const KeyView&);  // for people
  std::string (*csv)(const KeyView&);   // for programs: RFC 3339, milliseconds, empty if absent
  std::string_view csv_name{};          // with its unit; empty: name
};
Result<std::vector<const Column*>> choose_columns(const Options&);

std::string table_of(const std::vector<KeyView>&, const std::vector<const Column*>&, bool heading);
std::string csv_of(const std::vector<KeyView>&, const std::vector<const Column*>&, bool heading);
std::string table_of_unknown(const Key&, const std::vector<const Column*>&, const Options&);

}  // namespace dlock::cli
