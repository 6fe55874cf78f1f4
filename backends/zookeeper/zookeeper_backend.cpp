// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/zookeeper_backend.hpp"
#include "zookeeper/ephemeral_recipe.hpp"
#include "zookeeper/queue_recipe.hpp"

namespace dlock::zookeeper {

std::string warning(const Url& url) {
  const bool logs_in = !url.user.empty() || url.item("auth_file");
  if (!logs_in || stays_on_this_machine(url)) return {};
  return "the login goes over the network as it is: ZooKeeper is spoken to without TLS";
}

Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits, const Settings& settings) {
  auto options = parse_options(url, traits, settings);
  if (!options) return fail(std::move(options.error()));
  if (const auto dialect = dialect_of(traits.recipe))
    return std::make_unique<QueueBackend>(traits, std::move(*options), *dialect);
  return std::make_unique<EphemeralBackend>(traits, std::move(*options));
}

}  // namespace dlock::zookeeper
