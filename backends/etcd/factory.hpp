// SPDX-License-Identifier: Apache-2.0
// The factory of family `etcd`. README.md beside this file says what its recipes guarantee, and
// what each request can change when it arrives late.
//
//   etcd://[USER[:PASSWORD]@]HOST[:2379],HOST...[/PATH]     etcds:// is the same with TLS
#pragma once
#include <array>
#include "store/factory.hpp"

namespace dlock::etcd {

inline constexpr std::array<std::string_view, 2> schemes{"etcd", "etcds"};
inline constexpr std::array<UrlItem, 3> items{{
    tls_item,
    tls_files_item,
    tls_name_item,
}};
inline constexpr std::array<Traits, 2> recipes{{
    native_traits(
        "etcd", "queue",
        "a cluster restored from a snapshot, or a single member that was emptied, forgets "
        "grants and repeats tokens"),
    {.family = "etcd",
     .recipe = "concurrency",
     .fifo = true,
     .detached = true,
     .lock_delay = true,
     .wakes = true,
     .weakness = "exclusive only; the other programs trust keepalives, so they may go on, "
                 "or begin, when their lock has ended and dlock has it",
     .revokes = true},
}};

Result<Opener> prepare(const Url&, const Traits&, const Settings&);
Access access(const Url&);
std::vector<std::string> libraries();

inline constexpr BackendFactory factory{.family = "etcd",
                                        .schemes = schemes,
                                        .recipes = recipes,
                                        .items = items,
                                        .prepare = prepare,
                                        .libraries = libraries,
                                        .access = access};

}  // namespace dlock::etcd
