// SPDX-License-Identifier: Apache-2.0
// Configuration files, and the documents that tests write for them.
#include "cli/options/toml.hpp"
#include "targets.hpp"

namespace dlock::fuzz {
namespace {

// U+FB26 to U+FEFE outside of a string or a comment: Debian's toml++ 3 runs there into its own
// __builtin_unreachable(), where UBSan ends the process. GCC's code goes on to the right error.
bool beyond_the_library(std::string_view text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    const auto next = static_cast<unsigned char>(text[i + 1]);
    if (text[i] == '\xef' && next >= 0xac && next <= 0xbb) return true;
  }
  return false;
}

void toml(std::string_view text) {
  if (beyond_the_library(text)) return;
  if (const auto lines = cli::parse_toml(text, "config.toml")) {
    for (const auto& line : *lines) must(line.number > 0, "an entry without a line");
  } else {
    must(lines.error().code == Errc::config, "not Errc::config");
    must(lines.error().message.find('\n') == std::string::npos, "the message has several lines");
  }
}

const Added toml_target{"toml", toml};

}  // namespace
}  // namespace dlock::fuzz
