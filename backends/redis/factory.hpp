// SPDX-License-Identifier: Apache-2.0
// The factory of family `redis`. dlock-redis(7) explains its URLs; README.md beside this file has
// the guarantees of the recipes and the rights that they need.
#pragma once
#include <array>
#include "store/factory.hpp"

namespace dlock::redis {

inline constexpr std::array<std::string_view, 5> schemes{"redis", "rediss", "redis+unix",
                                                         "redis+sentinel", "redis+cluster"};
inline constexpr UrlItem grace_item{
    "restart_grace", UrlItem::duration, "0", "30s", "", "a duration such as 30s, or 0"};
inline constexpr std::array<UrlItem, 9> items{{
    {"db", UrlItem::number, "1000000", "0", "", "", "/N behind the host"},
    tls_item,
    tls_files_item,
    tls_name_item,
    {"sentinel_user"},
    {"replicas", UrlItem::number, "1000", "0"},
    grace_item,
    {"stale_after", UrlItem::duration, "", "", "setnx-expire", "a duration above 0, such as 1h"},
    {"unit", UrlItem::choice, "s ms", "s", "getset",
     "s or ms: what the timestamps of the others count"},
}};
inline constexpr std::array<Traits, 4> recipes{{
    native_traits("redis", "fair",
                  "a failover to a replica that has not seen a grant forgets it (?replicas=N makes "
                  "that less likely); a jump of the server's clock ends leases early or late"),
    {.family = "redis",
     .recipe = "set",
     .detached = true,
     .weakness = "no queue: waiters poll, in no order; a failover or a jump of the server's clock "
                 "as with fair"},
    {.family = "redis",
     .recipe = "setnx-expire",
     .detached = true,
     .weakness = "a crash between SETNX and EXPIRE leaves a lock for ever, unless it was a "
                 "dlock's; foreign ones end by release --force or ?stale_after=; no queue",
     .legacy = true},
    {.family = "redis",
     .recipe = "getset",
     .detached = true,
     .weakness = "needs equal clocks on all clients; a loser overwrites the winner's time, which "
                 "then considers its lock lost; the value tells no owner; no queue",
     .legacy = true},
}};

Result<Opener> prepare(const Url&, const Traits&, const Settings&);

Access access(const Url&);  // family redlock uses it, too

std::vector<std::string> libraries();  // versions of hiredis and OpenSSL

inline constexpr BackendFactory factory{.family = "redis",
                                        .schemes = schemes,
                                        .recipes = recipes,
                                        .items = items,
                                        .prepare = prepare,
                                        .libraries = libraries,
                                        .access = access};

}  // namespace dlock::redis
