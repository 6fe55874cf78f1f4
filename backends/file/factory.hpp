// SPDX-License-Identifier: Apache-2.0
// The factory of family `file`: recipes `lease` (default) and `flock`. README.md beside this file
// lists their guarantees.
//
//   file:                 the default directory: /var/lib/dlock for root, $XDG_STATE_HOME/dlock or
//   ~/.local/state/dlock for others
//   file:DIR              relative to the current directory at the time of prepare()
//   file:/DIR, file:///DIR
//
// The default prefix of names is empty for both recipes: the directory of recipe lease is dlock's
// own, and recipe flock shares its names with other programs.
#pragma once
#include <array>
#include "file/lease/key_store.hpp"
#include "store/factory.hpp"

namespace dlock::file {

inline constexpr std::array<std::string_view, 1> schemes{"file"};
inline constexpr std::array<UrlItem, 1> items{{
    // yes: accept a network filesystem; then only one host may use the directory
    {"netfs", UrlItem::choice, "no 0 false off yes 1 true on", "no", "", "yes or no"},
}};
inline constexpr std::array<Traits, 2> recipes{{
    native_traits(
        "file", "lease",
        "one machine, and only processes that use the same directory; not on network filesystems",
        Liveness::process),
    {.family = "file",
     .recipe = "flock",
     .liveness = Liveness::process,
     .shared = true,
     .wakes = true,
     .weakness = "one machine; no order among waiters, no detached lease; a forced release has to "
                 "wait for the holder; in a directory of all users only the clock makes tokens "
                 "rise from user to user"},
}};

Result<Opener> prepare(const Url&, const Traits&, const Settings&);

std::string makes(const Url&, const Traits&, bool locks);

inline constexpr BackendFactory factory{.family = "file",
                                        .schemes = schemes,
                                        .recipes = recipes,
                                        .items = items,
                                        .prepare = prepare,
                                        .makes = makes};

// For tests: makes a backend of recipe lease with the times of `Tuning`, and without a URL.
std::unique_ptr<Backend> open_lease(const std::string& directory, const Settings&, const Tuning&);

// Returns the directory of a bare `file:`. Errc::cannot_create: there is no home directory.
Result<std::string> default_directory();

}  // namespace dlock::file
