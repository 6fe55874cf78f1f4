// SPDX-License-Identifier: Apache-2.0
#include "postgresql/factory.hpp"
#include <fmt/format.h>
#include <libpq-fe.h>
#include "postgresql/advisory/advisory_backend.hpp"
#include "postgresql/client/options.hpp"
#include "postgresql/lease/lease_table.hpp"
#include "sql/sql_lease_backend.hpp"

namespace dlock::postgresql {

Result<Opener> prepare(const Url& url, const Traits& traits, const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  return opener(std::move(options), [&traits](Options o) -> Result<std::unique_ptr<Backend>> {
    if (traits.recipe == "advisory") return std::make_unique<AdvisoryBackend>(traits, std::move(o));
    return std::make_unique<SqlLeaseBackend>(traits, std::make_unique<Client>(std::move(o)),
                                             std::make_unique<LeaseTable>());
  });
}

std::vector<std::string> libraries() {
  const int version = ::PQlibVersion();
  return {fmt::format("libpq {}.{}", version / 10000, version % 10000)};
}

}  // namespace dlock::postgresql
