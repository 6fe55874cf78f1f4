// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "core/backend.hpp"

namespace dlock::mysql {

struct Server {
  std::string host;
  std::uint16_t port = 3306;
  std::string socket;  // a path: host and port do not count
  std::string text() const;
};

// What a URL, the settings, the environment and ~/.my.cnf say, checked as far as that goes without a connection.
struct Options {
  std::vector<Server> servers;  // nodes of one cluster; the first that answers is used
  std::string user, password, database;
  bool tls = false, tls_verify = true;
  std::string tls_ca, tls_cert, tls_key;                   // files; empty ca: the system's
  std::string plugin_dir;                                  // of client authentication plugins; empty: where they usually are
  std::string prefix;                                      // of every key
  bool poll = false;                                       // wake=poll: no named locks
  Duration clock_skew{2'000'000};                          // Galera: how far the clocks of the nodes may be apart
  std::string table, key_column;                           // of the recipes that lock rows; empty: the recipe's own
  std::vector<std::pair<std::string, std::string>> where;  // for-update: column, value
  std::optional<Duration> stale_after;                     // insert: a foreign row is removed at this age
  Duration op_timeout, connect_timeout;
  int interrupt_fd = -1;
  std::string where_text;  // redacted URL
};

// Errc::usage names the item, its value and what is allowed; Errc::config: ~/.my.cnf.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

}  // namespace dlock::mysql
