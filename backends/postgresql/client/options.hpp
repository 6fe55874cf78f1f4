// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>
#include "sql/sql_client.hpp"
#include "store/factory.hpp"

namespace dlock::postgresql {

struct Server {
  std::string host;
  std::uint16_t port = 5432;
  std::string socket;     // the directory of a unix socket; then `host` is empty
  std::string address{};  // ?hostaddr=; empty: ask the name service
  std::string text() const;
};

// The settings from URL and options. libpq takes all other settings from its own sources (PGUSER,
// PGPASSWORD, PGPASSFILE, PGSERVICE, PGSSLMODE, ~/.pgpass, ...).
struct Options : SqlOptions {
  std::vector<Server> servers;  // dlock uses the first server that replies and accepts writes
  std::string key_kind;         // ?key= of recipe advisory
  std::string tls_name;         // the name that the certificate must have; empty: the host
  std::vector<std::pair<std::string, std::string>> library;  // name and value of items for libpq
};

// Errc::usage: the message names the item, its value and what is allowed.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

}  // namespace dlock::postgresql
