// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "core/backend.hpp"
#include "core/lock_state.hpp"
#include "redis/endpoint.hpp"
#include "redis/tls.hpp"

namespace dlock::redis {

// What a URL and the settings say, checked as far as that goes without a connection.
struct Options {
  enum class Topology { single, sentinel, cluster, independent };
  Topology topology = Topology::single;
  std::vector<Endpoint> servers;  // sentinels, of that topology; all the masters of redlock
  std::string master;             // its name, as sentinels know it
  std::string user, password;
  unsigned database = 0;
  std::optional<TlsOptions> tls;
  std::string prefix;     // of every key in the store
  unsigned replicas = 0;  // acknowledgements a grant needs
  Duration restart_grace{60'000'000};
  std::optional<Duration> stale_after;  // setnx-expire: a foreign lock without expiry that did not change for so long is removed
  Micros unit = 1'000'000;              // getset: microseconds per unit of its timestamps
  Duration op_timeout, connect_timeout;
  int interrupt_fd = -1;
  std::string where;  // redacted URL
};

// Errc::usage names the item, its value and what is allowed.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

}  // namespace dlock::redis
