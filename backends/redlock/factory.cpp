// SPDX-License-Identifier: Apache-2.0
#include "redlock/factory.hpp"
#include "redlock/redlock_backend.hpp"

namespace dlock::redlock {

Result<void> check(const Url& url, const Traits& traits, const Settings& settings) {
  TRY_VOID(parse_options(url, traits, settings));
  return {};
}

Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits,
                                      const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  TRY(made, RedlockBackend::create(traits, std::move(options)));
  return std::unique_ptr<Backend>{std::move(made)};
}

}  // namespace dlock::redlock
