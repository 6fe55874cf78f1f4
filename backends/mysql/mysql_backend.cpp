// SPDX-License-Identifier: Apache-2.0
#include "mysql/mysql_backend.hpp"
#include "mysql/for_update.hpp"
#include "mysql/get_lock.hpp"
#include "mysql/lease_backend.hpp"
#include "mysql/options.hpp"
#include "mysql/row_backend.hpp"

namespace dlock::mysql {

Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits, const Settings& settings) {
  auto options = parse_options(url, traits, settings);
  if (!options) return fail(std::move(options.error()));
  if (traits.recipe == "get-lock") return std::make_unique<GetLockBackend>(traits, std::move(*options));
  if (traits.recipe == "for-update") return std::make_unique<ForUpdateBackend>(traits, std::move(*options));
  if (traits.recipe == "insert") return std::make_unique<InsertBackend>(traits, std::move(*options));
  if (traits.recipe == "version") return std::make_unique<VersionBackend>(traits, std::move(*options));
  return std::make_unique<LeaseBackend>(traits, std::move(*options));
}

}  // namespace dlock::mysql
