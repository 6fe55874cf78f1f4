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
  std::string socket;     // a directory; without a host
  std::string address{};  // ?hostaddr=; empty: ask the name service
  std::string text() const;
};

// The settings from URL and options. libpq takes the others from its own sources (PGUSER,
// PGPASSWORD, PGPASSFILE, PGSERVICE, PGSSLMODE, ~/.pgpass, ...).
struct Options : SqlOptions {
  std::vector<Server> servers;  // dlock uses the first server that replies and accepts writes
  std::string key_kind;         // of recipe advisory
  std::string tls_name;         // that the certificate must have; empty: the host
  std::vector<std::pair<std::string, std::string>> library;  // passed on to libpq
};

// Errc::usage: the message names the item, its value and what is allowed.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

}  // namespace dlock::postgresql
