// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>
#include "common/url_items.hpp"
#include "core/lock_state.hpp"
#include "store/factory.hpp"

namespace dlock::redis {

// Settings from URL and options, checked as far as possible without a connection.
struct Options : LoginOptions {
  enum class Topology { single, sentinel, cluster, independent };
  Topology topology = Topology::single;
  // The sentinels for Topology::sentinel; otherwise servers that store locks.
  std::vector<Endpoint> servers;
  std::string master;  // the master's name, as sentinels know it
  unsigned database = 0;
  std::string prefix;     // the prefix of every key in the store
  unsigned replicas = 0;  // the number of acknowledgements that a grant needs
  Duration restart_grace{};
  // Recipe setnx-expire removes a foreign lock if the lock has no expiry, and has not changed for
  // this long.
  std::optional<Duration> stale_after;
  Micros unit = 1'000'000;  // recipe getset: microseconds per unit of its timestamps
};

std::uint16_t usual_port(std::string_view scheme) noexcept;

// Errc::usage: the message names the item, its value and what is allowed. If no topology is given,
// the scheme decides.
Result<Options> parse_options(const Url&, const Traits&, const Settings&,
                              std::optional<Options::Topology> = {});

}  // namespace dlock::redis
