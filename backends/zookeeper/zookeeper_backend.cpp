// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/zookeeper_backend.hpp"
#include "zookeeper/ephemeral_recipe.hpp"
#include "zookeeper/queue_recipe.hpp"

namespace dlock::zookeeper {

Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits, const Settings& settings) {
  auto options = parse_options(url, traits, settings);
  if (!options) return fail(std::move(options.error()));
  if (traits.recipe == "ephemeral") return std::make_unique<EphemeralBackend>(traits, std::move(*options));
  const Dialect dialect = traits.recipe == "curator" ? Dialect::curator
                          : traits.recipe == "kazoo" ? Dialect::kazoo
                                                     : Dialect::sequential;
  return std::make_unique<QueueBackend>(traits, std::move(*options), dialect);
}

}  // namespace dlock::zookeeper
