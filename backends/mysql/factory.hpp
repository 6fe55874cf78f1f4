// SPDX-License-Identifier: Apache-2.0
// The factory of family `mysql`: MySQL, MariaDB and Galera. README.md beside this file describes
// the guarantees of its recipes, and the rights that an account needs.
//
//   mysql://[USER@]HOST[:3306][,HOST...]/DB     mariadb:// is the same. Several hosts must be nodes
//   of one cluster (recipe lease only)
//   mysql+unix://[USER@]/SOCKET?db=DB
#pragma once
#include <array>
#include "store/factory.hpp"

namespace dlock::mysql {

inline constexpr std::array<std::string_view, 3> schemes{"mysql", "mariadb", "mysql+unix"};
inline constexpr std::array<UrlItem, 12> items{{
    {"db", UrlItem::text, "", "", "", "", "/DB behind the host"},
    tls_item,
    tls_files_item,
    tls_name_item,
    // the name of ?tls= in MySQL's own clients
    {"ssl-mode", UrlItem::choice, "DISABLED REQUIRED VERIFY_CA VERIFY_IDENTITY", "", "",
     "DISABLED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY"},
    {"plugin_dir"},
    {"wake", UrlItem::choice, "named poll", "named", "lease", "named or poll"},
    {"clock_skew", UrlItem::duration, "0", "2s", "lease insert version", "a duration such as 2s"},
    {"table", UrlItem::identifier, "", "", "for-update insert version"},
    {"key_column", UrlItem::identifier, "", "", "for-update"},
    {"stale_after", UrlItem::duration, "1s", "", "insert", "a duration of 1s or more, such as 1h"},
    {"where.", UrlItem::text, "", "", "for-update"},
}};
inline constexpr std::array<Traits, 5> recipes{{
    native_traits(
        "mysql", "lease",
        "the promotion of a replica that has not seen a grant forgets it; on Galera "
        "waiters poll, and the nodes' clocks must not be further apart than ?clock_skew="),
    {.family = "mysql",
     .recipe = "get-lock",
     .liveness = Liveness::connection,
     .wakes = true,
     .weakness = "known to one server only, and ends with the connection: when the server closes "
                 "it, another may hold the lock before the job is dead; refused on Galera and "
                 "behind proxies that share connections"},
    {.family = "mysql",
     .recipe = "for-update",
     .liveness = Liveness::connection,
     .wakes = true,
     .weakness = "an open transaction for as long as the job runs, which ends with its connection: "
                 "when the server closes it, another may hold the lock before the job is dead; in "
                 "no order on MySQL 8; refused on Galera"},
    {.family = "mysql",
     .recipe = "insert",
     .detached = true,
     .weakness = "no queue: waiters poll, in no order; a program of the others that dies leaves "
                 "its row for ever, unless ?stale_after= is given"},
    {.family = "mysql",
     .recipe = "version",
     .detached = true,
     .weakness = "no queue: waiters poll, in no order, and one of many may starve"},
}};

Result<Opener> prepare(const Url&, const Traits&, const Settings&);
Access access(const Url&);
void normalize_url(Url&);

std::vector<std::string> libraries();

inline constexpr BackendFactory factory{.family = "mysql",
                                        .schemes = schemes,
                                        .recipes = recipes,
                                        .items = items,
                                        .prepare = prepare,
                                        .libraries = libraries,
                                        .access = access,
                                        .normalize_url = normalize_url};

}  // namespace dlock::mysql
