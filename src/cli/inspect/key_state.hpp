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
  delayed,  // the holder is dead, but its lock-delay still blocks the key
  unknown,  // no holder is known, but the store may have lost a grant
  stale,    // the store has only records whose lease has ended
  free,
};
KeyView free_key(const Key&);                 // the view of an unknown key
bool has_no_record(const KeyView&) noexcept;  // the store has no record of a grant
KeyState state_of(const KeyView&) noexcept;
std::string_view state_name(KeyState) noexcept;  // "?" if unknown
bool has_stale_holder(const KeyView&) noexcept;  // a holder is dead, or its lease has ended
// Returns whether only --min-hold still keeps the lock, because the last run's record shows that
// the job has ended.
bool is_min_hold_remainder(const KeyView&, const HolderView&) noexcept;
// Returns why no process would read a request to stop (release --revoke), as far as this host can
// see. Empty: the holder's dlock reads the request.
std::string why_irrevocable(const KeyView&, const HolderView&);
// Returns the first holder that release --force can remove, or null.
const HolderView* removable(const KeyView&);
// Returns the options that remove this holder: "--force --token 7".
std::string force_options(const HolderView&);
std::size_t holding(const KeyView&) noexcept;  // the number of holders that have not ended

// Returns "2 of 3 permits" if all contenders have the same limit, else "2 permits". Empty: nobody
// holds a permit.
std::string permits(const KeyView&);
// Adds notes about different limits, and about shared locks together with permits. Removes holders
// whose --min-hold is over.
void note_limits(KeyView&);

// Returns the time since the holder's request, by the clocks of its host and ours; nullopt if the
// time of the request is unknown or in the future.
std::optional<Duration> age(const Identity&);

}  // namespace dlock::cli
