// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "sql/sql_client.hpp"
#include "store/factory.hpp"

namespace dlock::postgresql {

struct Server {
  std::string host;
  std::uint16_t port = 5432;
  std::string socket;     // a directory: no host
  std::string address{};  // ?hostaddr=: where it is; empty: where the name service says
  std::string text() const;
};

// The settings from URL and options. What neither says, libpq takes from its own sources (PGUSER,
// PGPASSWORD, PGPASSFILE, PGSERVICE, PGSSLMODE, ~/.pgpass, ...).
struct Options : SqlOptions {
  std::vector<Server> servers;  // the first that answers and writes is used
  std::string key_kind;         // of recipe advisory
  std::string tls_name;         // for whom the certificate must be; empty: the host
  std::vector<std::pair<std::string, std::string>> library;  // for libpq, as they are
};

// Errc::usage names the item, its value and what is allowed.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

}  // namespace dlock::postgresql
