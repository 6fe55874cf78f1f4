// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/factory.hpp"
#include <zookeeper/zookeeper_version.h>
#include "core/duration.hpp"
#include "zookeeper/ephemeral/ephemeral_backend.hpp"
#include "zookeeper/queue/queue_backend.hpp"
#include "zookeeper/session/proof.hpp"

namespace dlock::zookeeper {

Duration proven_lifetime(Duration ttl, Duration lock_delay, const Url& url) {
  const auto tick = url.item("tick");  // prepare() refuses a wrong value
  return proven_of(ttl, lock_delay, tick ? parse_duration(*tick).value_or(Duration{}) : Duration{});
}

Access access(const Url& url) {
  Access a{.port = usual_port, .no_tls = "this dlock has no TLS for ZooKeeper"};
  if (url.user.empty()) a.no_password = "it has no user; name one, or use --auth-file";
  if (!is_on_loopback(url))
    a.in_clear = "the login is sent unencrypted: this dlock has no TLS for ZooKeeper";
  return a;
}

Result<Opener> prepare(const Url& url, const Traits& traits, const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  return opener(std::move(options), [&traits](Options o) -> Result<std::unique_ptr<Backend>> {
    if (const auto dialect = dialect_of(traits.recipe))
      return std::make_unique<QueueBackend>(traits, std::move(o), *dialect);
    return std::make_unique<EphemeralBackend>(traits, std::move(o));
  });
}

std::vector<std::string> libraries() { return {"libzookeeper_st " ZOO_VERSION}; }

}  // namespace dlock::zookeeper
