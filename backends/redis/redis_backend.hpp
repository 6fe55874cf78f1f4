// SPDX-License-Identifier: Apache-2.0
// The factory of family `redis`. What its recipes guarantee, and what the server must allow: README.md beside this file.
//
//   redis://[USER[:PASSWORD]@]HOST[:6379][/DB]     rediss:// or tls=yes: over TLS
//   redis+unix:///PATH[?db=DB]
//
// Items: `tls=yes|no`, `tls_ca`, `tls_cert`, `tls_key` (files); `replicas=N` (acknowledgements that a grant and a renewal need);
// `restart_grace=D` (no grant by a server that started less than D ago and may have forgotten locks; 60s).
#pragma once
#include <array>
#include "core/backend.hpp"

namespace dlock::redis {

inline constexpr std::array<std::string_view, 3> schemes{"redis", "rediss", "redis+unix"};
inline constexpr std::array<std::string_view, 7> items{"db", "tls", "tls_ca", "tls_cert", "tls_key", "replicas", "restart_grace"};
inline constexpr std::array<Traits, 1> recipes{{
    {.family = "redis",
     .recipe = "fair",
     .liveness = Liveness::lease,
     .fifo = true,
     .shared = true,
     .permits = true,
     .detached = true,
     .lock_delay = true,
     .wakes = true,
     .native = true,
     .weakness =
         "a failover to a replica that has not seen a grant forgets it (?replicas=N makes that less likely); a jump of the "
         "server's clock ends leases early or late"},
}};

Result<std::unique_ptr<Backend>> open(const Url&, const Traits&, const Settings&);

inline constexpr BackendFactory factory{"redis", schemes, recipes, items, open};

}  // namespace dlock::redis
