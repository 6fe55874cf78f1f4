// SPDX-License-Identifier: Apache-2.0
#include "redis/redis_backend.hpp"
#include <array>
#include "redis/client.hpp"
#include "redis/fair_recipe.hpp"
#include "redis/options.hpp"

namespace dlock::redis {
namespace {

constexpr std::array<std::string_view, 3> schemes{"redis", "rediss", "redis+unix"};
constexpr std::array<std::string_view, 7> items{"db", "tls", "tls_ca", "tls_cert", "tls_key", "replicas", "restart_grace"};

Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits, const Settings& settings) {
  auto options = parse_options(url, traits, settings);
  if (!options) return fail(std::move(options.error()));
  auto client = Client::create(std::move(*options));
  if (!client) return fail(std::move(client.error()));
  return std::make_unique<FairBackend>(std::move(*client));
}

}  // namespace

const BackendFactory factory{
    .family = "redis",
    .schemes = schemes,
    .recipes = {&fair_traits, 1},
    .items = items,
    .open = open,
};

}  // namespace dlock::redis
