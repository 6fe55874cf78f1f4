// SPDX-License-Identifier: Apache-2.0
#include "redis/factory.hpp"
#include "redis/fair/fair_backend.hpp"
#include "redis/named/getset_backend.hpp"
#include "redis/named/set_backend.hpp"
#include "redis/named/setnx_expire_backend.hpp"
#include "redis/wire/client.hpp"
#include "redis/wire/options.hpp"

namespace dlock::redis {

Result<void> check(const Url& url, const Traits& traits, const Settings& settings) {
  TRY_VOID(parse_options(url, traits, settings));
  return {};
}

Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits,
                                      const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  TRY(client, Client::create(std::move(options)));
  if (traits.recipe == "set") return std::make_unique<SetBackend>(traits, std::move(client));
  if (traits.recipe == "setnx-expire")
    return std::make_unique<SetnxExpireBackend>(traits, std::move(client));
  if (traits.recipe == "getset") return std::make_unique<GetsetBackend>(traits, std::move(client));
  return std::make_unique<FairBackend>(traits, std::move(client));
}

}  // namespace dlock::redis
