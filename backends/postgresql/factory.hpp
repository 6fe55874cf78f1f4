// SPDX-License-Identifier: Apache-2.0
// The factory of family `postgresql`. README.md beside this file describes the guarantees of its
// recipes, and the rights that an account needs.
//
//   postgresql://[USER@]HOST[:5432][,HOST...]/DB
//   postgresql+unix://[USER@]/DIRECTORY?db=DB[&port=5432]
//
// The scheme postgres:// is the same as postgresql://. Several hosts must be of one cluster; dlock
// uses the first host that replies and accepts writes.
#pragma once
#include <array>
#include <span>
#include "store/factory.hpp"

namespace dlock::postgresql {

inline constexpr std::array<std::string_view, 3> schemes{"postgresql", "postgres",
                                                         "postgresql+unix"};
inline constexpr std::array<UrlItem, 10> items{{
    {"db", UrlItem::text, "", "", "", "", "HOST:PORT/DB"},
    {"port", UrlItem::number, "65535", "5432", "", "", "HOST:PORT/DB"},
    {"wake", UrlItem::choice, "lock poll", "lock", "lease", "lock or poll"},
    {"key", UrlItem::choice, "hashtext hashtextextended int8 int4,int4 crc32", "hashtext",
     "advisory", "hashtext, hashtextextended, int8, int4,int4, crc32"},
    tls_name_item,
    // libpq's own names of items; see normalize_url()
    {"host hostaddr user password"},
    {"connect_timeout", UrlItem::number, "1000000"},
    // passed to libpq as they are
    {"application_name channel_binding keepalives keepalives_count keepalives_idle "
     "keepalives_interval passfile service options ssl_max_protocol_version "
     "sslcert "
     "ssl_min_protocol_version sslcrl sslcrldir sslkey sslmode sslrootcert sslsni"},
    {"target_session_attrs", UrlItem::choice, "read-write primary any", "", "",
     "read-write: locks live on the server that writes"},
    {"tcp_user_timeout"},
}};
inline constexpr std::span<const UrlItem> library_items = std::span{items}.subspan(7);
inline constexpr std::array<Traits, 2> recipes{{
    native_traits("postgresql", "lease",
                  "the promotion of an asynchronous standby that has not seen a grant forgets it; "
                  "behind a pooler in transaction mode waiters poll"),
    {.family = "postgresql",
     .recipe = "advisory",
     .liveness = Liveness::connection,
     .wakes = true,
     .weakness = "known to one server only, and ends with the connection: when the server closes "
                 "it, another may hold the lock before the job is dead; refused behind poolers"},
}};

Result<Opener> prepare(const Url&, const Traits&, const Settings&);
Access access(const Url&);
void normalize_url(Url&);

std::vector<std::string> libraries();

inline constexpr BackendFactory factory{.family = "postgresql",
                                        .schemes = schemes,
                                        .recipes = recipes,
                                        .items = items,
                                        .prepare = prepare,
                                        .libraries = libraries,
                                        .note = "no GSSAPI, no LDAP",
                                        .access = access,
                                        .normalize_url = normalize_url};

}  // namespace dlock::postgresql
