// SPDX-License-Identifier: Apache-2.0
// The configuration files: TOML, each key the long name of an option, with tables [profile.NAME]
// that --profile chooses.
//
//   backend = "redis://db1"
//   wait = "15m"
//   [profile.batch]
//   ttl = "2m"
//
// One entry is no option: `require-backend = true` makes a command line without a backend an error,
// and no other file undoes it.
#pragma once
#include <string>
#include <string_view>
#include <vector>
#include "cli/options/options.hpp"
#include "core/error.hpp"

namespace dlock::cli {

struct Entry {
  std::string profile;    // empty: outside of every [profile.NAME]
  std::string name;       // empty: only shows that the profile exists
  std::string value;      // text of a string, a number, true or false
  unsigned number = 0;    // line
  std::string where{};    // "/etc/dlock/config.toml:3"
  unsigned layer = 0;     // 0 has the highest priority, one for each table
  std::string backend{};  // of a secret: that of the same table, the only one that it is for
};

// Files of secrets and of TLS, which must not reach another backend than the one they are for.
bool is_secret(std::string_view option) noexcept;

// --config, then the user's file, then the system's; a missing file is skipped, except for
// --config. Parsed only when it exists.
Result<std::vector<Entry>> read_configuration(const Options&);

struct ConfigFile {
  std::string path;
  bool required;
};
// The same for these files, in order of priority. The chosen profile overrides everything outside
// of it, in every file. Errc::config: unreadable, writable by others, not TOML, a profile that no
// file has, or a table with a secret that names no backend.
Result<std::vector<Entry>> read_configuration(const std::vector<ConfigFile>&,
                                              std::string_view profile);

// The TOML subset that dlock reads; no other file uses the library. Without layers and backends, in
// the order of the document. Errc::config: not TOML, another table, or a value that is neither
// text, a number nor true or false.
Result<std::vector<Entry>> parse_toml(std::string_view text, std::string_view path);

std::string toml_version();  // of the library

}  // namespace dlock::cli
