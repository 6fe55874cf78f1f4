// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "common/url_items.hpp"
#include "store/factory.hpp"

namespace dlock::mysql {

struct Server {
  std::string host;
  std::uint16_t port = 3306;
  std::string socket;  // a path: host and port are not used
  std::string text() const;
};

// The settings from URL, options, environment and ~/.my.cnf, checked as far as possible without a
// connection.
struct Options : LoginOptions {
  std::vector<Server> servers;  // nodes of one cluster; the first that answers is used
  std::string database;
  bool password_of_cnf = false;  // it came from ~/.my.cnf
  // of client authentication plugins; empty: the usual directories
  std::string plugin_dir;
  std::string prefix;  // of every key
  bool poll = false;   // wake=poll: no named locks
  // Galera: the greatest difference between the nodes' clocks
  Duration clock_skew{};
  // of the recipes that lock rows; empty: the recipe's own
  std::string table, key_column;
  // ?where.COLUMN= of for-update: column, value
  std::vector<std::pair<std::string, std::string>> conditions;
  // insert: a foreign row is removed at this age
  std::optional<Duration> stale_after;

  bool read_password_again();  // of ~/.my.cnf, too
};

// Errc::usage names the item, its value and what is allowed; Errc::config: ~/.my.cnf.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

}  // namespace dlock::mysql
