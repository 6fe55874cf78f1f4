// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "sql/sql_client.hpp"
#include "store/factory.hpp"

namespace dlock::mysql {

// The settings from URL, options, environment and ~/.my.cnf, checked as far as possible without a
// connection.
struct Options : SqlOptions {
  std::vector<Endpoint> servers;  // nodes of one cluster; dlock uses the first that replies
  bool password_of_cnf = false;   // the password came from ~/.my.cnf
  // The directory of client authentication plugins; empty: the usual directories.
  std::string plugin_dir;
  // ?table= and ?key_column= of recipes that lock rows; empty: the recipe's own table and column
  std::string table, key_column;
  // recipe for-update: the column and the value of each ?where.COLUMN=VALUE
  std::vector<std::pair<std::string, std::string>> conditions;
  // recipe insert: the age at which a row of another program is removed; nullopt: never
  std::optional<Duration> stale_after;

  bool read_password_again();  // reads ~/.my.cnf, too
};

// Errc::usage: the message names the item, its value and what is allowed. Errc::config: ~/.my.cnf
// or a file for TLS cannot be used.
Result<Options> parse_options(const Url&, const Traits&, const Settings&);

}  // namespace dlock::mysql
