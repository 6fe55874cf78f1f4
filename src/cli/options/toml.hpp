// SPDX-License-Identifier: Apache-2.0
// The TOML subset that dlock reads; the only file that uses the library.
#pragma once
#include <string>
#include <string_view>
#include <vector>
#include "core/error.hpp"

namespace dlock::cli {

struct TomlLine {
  std::string profile;  // empty: outside of every [profile.NAME]
  std::string name;     // empty: only shows that the profile exists
  std::string value;    // text of a string, a number, true or false
  unsigned number;      // line
};

// In the order of the document. Errc::config: not TOML, another table, or a value that is neither
// text, a number nor true or false.
Result<std::vector<TomlLine>> parse_toml(std::string_view text, std::string_view path);

std::string toml_version();  // of the library

}  // namespace dlock::cli
