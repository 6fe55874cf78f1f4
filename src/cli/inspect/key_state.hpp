// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include "core/identity.hpp"
#include "store/backend.hpp"

namespace dlock::cli {

enum class KeyState {
  held,
  delayed,  // the holder has vanished and its lock-delay still runs: the key is not granted
  unknown,  // no holder is found, and the store may have forgotten one
  stale,    // only records whose lease has ended
  free,
};
KeyView free_key(const Key&);               // the view of an unknown key
bool never_taken(const KeyView&) noexcept;  // the store has no record of a grant
KeyState state_of(const KeyView&) noexcept;
std::string_view state_name(KeyState) noexcept;  // unknown: "?"
bool has_stale_holder(const KeyView&) noexcept;  // vanished, or its lease has ended
// What --min-hold left to the store: its job has ended, as the record of the last run says.
bool is_min_hold_remainder(const KeyView&, const HolderView&) noexcept;
// Why no process reads a request to stop (release --revoke), as far as it can be seen here; empty:
// its dlock does.
std::string deaf_because(const KeyView&, const HolderView&);
const HolderView* removable(const KeyView&);   // the first that release --force removes, or null
std::string force_options(const HolderView&);  // with which it does: "--force --token 7"
std::size_t holding(const KeyView&) noexcept;  // how many have not ended

// "2 of 3 permits", with the limit that all contenders name, or "2 permits"; empty: none is held.
std::string permits(const KeyView&);
// Limits that differ, and shared locks beside permits, as notes. Removes what remained of
// --min-hold and is over.
void note_limits(KeyView&);

// Since the holder's request, by the clocks of its host and ours; nothing if that is unknown or in
// the future.
std::optional<Duration> age(const Identity&);

}  // namespace dlock::cli
