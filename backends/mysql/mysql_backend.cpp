// SPDX-License-Identifier: Apache-2.0
#include "mysql/mysql_backend.hpp"
#include "mysql/lease_backend.hpp"
#include "mysql/options.hpp"

namespace dlock::mysql {

Result<std::unique_ptr<Backend>> open(const Url& url, const Traits& traits, const Settings& settings) {
  auto options = parse_options(url, traits, settings);
  if (!options) return fail(std::move(options.error()));
  return std::make_unique<LeaseBackend>(traits, std::move(*options));
}

}  // namespace dlock::mysql
