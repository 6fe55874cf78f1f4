// SPDX-License-Identifier: Apache-2.0
#include "mysql/factory.hpp"
#include "mysql/client/options.hpp"
#include "mysql/foreign/for_update_backend.hpp"
#include "mysql/foreign/get_lock_backend.hpp"
#include "mysql/foreign/insert_backend.hpp"
#include "mysql/foreign/version_backend.hpp"
#include "mysql/lease/lease_backend.hpp"

namespace dlock::mysql {

std::unique_ptr<NamedBackend> open_named(const Traits& traits, const Options& options) {
  if (traits.recipe == "get-lock") return std::make_unique<GetLockBackend>(traits, options);
  if (traits.recipe == "for-update") return std::make_unique<ForUpdateBackend>(traits, options);
  if (traits.recipe == "insert") return std::make_unique<InsertBackend>(traits, options);
  if (traits.recipe == "version") return std::make_unique<VersionBackend>(traits, options);
  return nullptr;
}

Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits,
                                      const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  if (auto named = open_named(traits, options)) return named;
  return std::make_unique<LeaseBackend>(traits, std::move(options));
}

}  // namespace dlock::mysql
