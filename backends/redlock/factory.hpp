// SPDX-License-Identifier: Apache-2.0
// The factory of family `redlock`. dlock-redlock(7) explains its URLs; README.md beside this file
// has its guarantees and the rights that the masters must grant.
#pragma once
#include <array>
#include "redis/factory.hpp"
#include "redis/wire/options.hpp"
#include "store/factory.hpp"

namespace dlock::redlock {

inline constexpr std::array<std::string_view, 1> schemes{"redlock"};
inline constexpr std::array<UrlItem, 5> items{{
    tls_item,
    tls_files_item,
    tls_name_item,
    redis::grace_item,
    {"allow_even list_change", UrlItem::yes_no},
}};
inline constexpr std::array<Traits, 1> recipes{{
    {.family = "redlock",
     .recipe = "redlock",
     .detached = true,
     .wakes = true,
     .weakness = "exclusion depends on the clocks of a majority of the masters, and on restarts "
                 "that forget nothing or are waited out (restart_grace); no queue",
     .revokes = true,
     .keeps_last_run = true},
}};

struct Options : redis::Options {  // `servers` has all the masters
  bool list_change = false;        // a key may have other masters than before
};

// Errc::usage names the item, its value and what is allowed.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

Result<Opener> prepare(const Url&, const Traits&, const Settings&);

inline constexpr BackendFactory factory{.family = "redlock",
                                        .schemes = schemes,
                                        .recipes = recipes,
                                        .items = items,
                                        .prepare = prepare,
                                        .access = redis::access};

}  // namespace dlock::redlock
