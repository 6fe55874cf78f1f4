// SPDX-License-Identifier: Apache-2.0
// Configuration files, and the documents that tests write for them.
#include "cli/options/configuration.hpp"
#include "targets.hpp"

namespace dlock::fuzz {
namespace {

void toml(std::string_view text) {
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
