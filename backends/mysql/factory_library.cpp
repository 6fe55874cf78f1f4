// SPDX-License-Identifier: Apache-2.0
#include <mysql.h>
#include "mysql/factory.hpp"

namespace dlock::mysql {

std::string library() {
#ifdef MARIADB_PACKAGE_VERSION
  return std::string("MariaDB Connector/C ") + ::mysql_get_client_info();
#else
  return std::string("libmysqlclient ") + ::mysql_get_client_info();
#endif
}

}  // namespace dlock::mysql
