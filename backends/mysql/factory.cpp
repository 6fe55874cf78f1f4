// SPDX-License-Identifier: Apache-2.0
#include "mysql/factory.hpp"
#include <mysql.h>
#include "mysql/client/options.hpp"
#include "mysql/foreign/for_update_backend.hpp"
#include "mysql/foreign/get_lock_backend.hpp"
#include "mysql/foreign/insert_backend.hpp"
#include "mysql/foreign/version_backend.hpp"
#include "mysql/lease/lease_table.hpp"
#include "sql/sql_lease_backend.hpp"

namespace dlock::mysql {

Result<Opener> prepare(const Url& url, const Traits& traits, const Settings& settings) {
  TRY(options, parse_options(url, traits, settings));
  return opener(std::move(options), [&traits](Options o) -> Result<std::unique_ptr<Backend>> {
    if (traits.recipe == "get-lock") return std::make_unique<GetLockBackend>(traits, o);
    if (traits.recipe == "for-update") return std::make_unique<ForUpdateBackend>(traits, o);
    if (traits.recipe == "insert") return std::make_unique<InsertBackend>(traits, o);
    if (traits.recipe == "version") return std::make_unique<VersionBackend>(traits, o);
    return std::make_unique<SqlLeaseBackend>(traits, std::make_unique<Client>(std::move(o)),
                                             std::make_unique<LeaseTable>());
  });
}

std::vector<std::string> libraries() {
#ifdef MARIADB_PACKAGE_VERSION
  return {std::string("MariaDB Connector/C ") + ::mysql_get_client_info()};
#else
  return {std::string("libmysqlclient ") + ::mysql_get_client_info()};
#endif
}

}  // namespace dlock::mysql
