// SPDX-License-Identifier: Apache-2.0
// What inspect shows. Whatever others wrote (keys, names, reasons) goes through printable(). What cannot be known is "?".
#pragma once
#include <string>
#include <vector>
#include "cli/options.hpp"
#include "cli/store.hpp"

namespace dlock::cli {

enum class KeyState {
  held,
  delayed,  // the holder has vanished and its lock-delay still runs: nobody gets the lock
  stale,    // only records whose lease has ended
  free,
};
KeyView free_key(const Key&);  // what the store has never heard of
KeyState state_of(const KeyView&) noexcept;
std::string_view state_name(KeyState) noexcept;
bool has_stale_holder(const KeyView&) noexcept;  // vanished, or its lease has ended

// Since the holder asked, by the clocks of its host and ours; nothing if that is unknown or lies in the future.
std::optional<Duration> age(const Identity&);

std::string utc(std::int64_t wall_micros);  // RFC 3339

// One key in full, for people.
std::string text_of_key(const KeyView&, const OpenStore&);
std::string text_of_unknown_key(const Key&);

// One object, with its newline. `error`: why the answer is not complete; then nothing is said about keys that were not seen.
std::string json_of_key(const KeyView&, const OpenStore&);
std::string json_of_list(const std::vector<KeyView>&, const OpenStore&);
std::string json_of_unknown(const Options&, const OpenStore&, const Error&);

// --doctor
bool unfit(const std::vector<Finding>&) noexcept;
std::string text_of_findings(const std::vector<Finding>&, const OpenStore&);
std::string json_of_findings(const std::vector<Finding>&, const OpenStore&);

// The columns of a table. Errc::usage (or config, by where it came from) with the list of what exists.
struct Column {
  std::string_view name;
  bool usual;                           // shown unless --columns says otherwise
  std::string (*text)(const KeyView&);  // for people
  std::string (*csv)(const KeyView&);   // for programs: RFC 3339, milliseconds, empty for "not there"
};
Result<std::vector<const Column*>> choose_columns(const Options&);

std::string table_of(const std::vector<KeyView>&, const std::vector<const Column*>&, bool heading);
std::string csv_of(const std::vector<KeyView>&, const std::vector<const Column*>&, bool heading);
std::string table_of_unknown(const Key&, const std::vector<const Column*>&, const Options&);

}  // namespace dlock::cli
