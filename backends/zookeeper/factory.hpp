// SPDX-License-Identifier: Apache-2.0
// The factory of family `zookeeper`. README.md beside this file describes the guarantees of its
// recipes, and the rights that the servers must grant.
//
//   zookeeper://[USER[:PASSWORD]@]HOST[:2181],HOST...[/CHROOT]     alias zk://
#pragma once
#include <array>
#include "store/factory.hpp"

namespace dlock::zookeeper {

inline constexpr std::array<std::string_view, 2> schemes{"zookeeper", "zk"};
inline constexpr std::array<UrlItem, 3> items{{
    // A file whose first line is scheme:credential. New nodes belong to this credential alone.
    {"auth_file"},
    {"tick", UrlItem::duration, "", "", "", "the servers' tickTime, such as 2s"},
    {"tls", UrlItem::choice, "no", "no", "", "no: this dlock has no TLS for ZooKeeper"},
}};

// See Traits::proven_lifetime. The result is greater with `?tick=`.
Duration proven_lifetime(Duration ttl, Duration lock_delay, const Url&);

constexpr Traits traits_of(std::string_view recipe, bool queues, bool native,
                           std::string_view weakness) {
  return {.family = "zookeeper",
          .recipe = recipe,
          .liveness = Liveness::session,
          .fifo = queues,
          .shared = native,
          .permits = native,
          .detached = true,
          .lock_delay = true,
          .wakes = true,
          .native = native,
          .weakness = weakness,
          .starts = native,
          .revokes = true,
          .proven_lifetime = proven_lifetime};
}

inline constexpr std::array<Traits, 4> recipes{{
    traits_of(
        "sequential", true, true,
        "the lock ends with its session: where the ensemble loses its quorum, jobs are ended"),
    traits_of("curator", true, false,
              "exclusive only; the lock ends with its session; the other programs trust "
              "\"connected\", which proves nothing"),
    traits_of("kazoo", true, false,
              "exclusive only; the lock ends with its session; the other programs trust "
              "\"connected\", which proves nothing"),
    traits_of("ephemeral", false, false,
              "every waiter wakes at each release, and they run in no order; the lock ends with "
              "its session"),
}};

Result<Opener> prepare(const Url&, const Traits&, const Settings&);

Access access(const Url&);

std::vector<std::string> libraries();

inline constexpr BackendFactory factory{.family = "zookeeper",
                                        .schemes = schemes,
                                        .recipes = recipes,
                                        .items = items,
                                        .prepare = prepare,
                                        .libraries = libraries,
                                        .note = "no TLS, no SASL",
                                        .access = access};

}  // namespace dlock::zookeeper
