// SPDX-License-Identifier: Apache-2.0
// The configuration files. They are TOML: each key is the long name of an option, and --profile
// chooses a table [profile.NAME].
//
//   backend = "redis://db1"
//   wait = "15m"
//   [profile.batch]
//   ttl = "2m"
//
// One entry is not an option: with `require-backend = true`, a command line without a backend is an
// error. No other file can undo this.
#pragma once
#include <string>
#include <string_view>
#include <vector>
#include "cli/options/options.hpp"
#include "core/error.hpp"

namespace dlock::cli {

struct Entry {
  std::string profile;  // empty: outside of every [profile.NAME]
  std::string name;     // empty: this entry only shows that the profile exists
  std::string value;    // text of a string, a number, true or false
  unsigned number = 0;  // the number of the line
  std::string where{};  // "/etc/dlock/config.toml:3"
  unsigned layer = 0;   // each table has its own; 0 has the highest priority
  // For a secret: the backend that the same table names. Only this backend gets the secret.
  std::string backend{};
};

// Returns whether the option names a secret, a TLS file or a TLS name. Only the backend that the
// same table names may get its value.
bool is_secret(std::string_view option) noexcept;

// Reads --config, then the user's file, then the system's file. A missing file is skipped, unless
// --config names it. TOML is parsed only if a file exists.
Result<std::vector<Entry>> read_configuration(const CommonOptions&);

struct ConfigFile {
  std::string path;
  bool required;
};
// Reads these files, in order of priority. The chosen profile overrides everything outside of it,
// in every file. Errc::config: a file is unreadable, writable by others or not TOML; no file has
// the profile; or a table has a secret but no backend.
Result<std::vector<Entry>> read_configuration(const std::vector<ConfigFile>&,
                                              std::string_view profile);

// Parses the TOML subset that dlock reads. Only the source file of parse_toml() uses toml++.
// The entries are in the order of the document; their `layer` and `backend` are not set yet.
// Errc::config: the text is not TOML, or it has an unknown table, or a value that is neither text,
// nor a number, nor true or false.
Result<std::vector<Entry>> parse_toml(std::string_view text, std::string_view path);

std::string toml_version();  // the library's version

}  // namespace dlock::cli
