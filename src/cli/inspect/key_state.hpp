// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string_view>
#include "core/backend.hpp"
#include "core/identity.hpp"

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

}  // namespace dlock::cli
