// SPDX-License-Identifier: Apache-2.0
#include "cli/version.hpp"
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <nlohmann/json_fwd.hpp>
#include "cli/options/arguments.hpp"
#include "cli/options/toml.hpp"
#include "core/backend.hpp"
#include "core/libraries.hpp"
#include "dlock_version.hpp"

namespace dlock::cli {
namespace {

std::string dotted(unsigned major, unsigned minor, unsigned patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

std::string recipes_of(const BackendFactory& b) {
  std::string text;
  for (const Traits& t : b.recipes)
    text += fmt::format("{} {}{}", text.empty() ? "" : ",", t.recipe,
                        &t == b.recipes.data() ? " (default)" : "");
  return text;
}

}  // namespace

std::string_view version() noexcept { return DLOCK_VERSION; }

std::string version_text() {
  constexpr std::string_view commit = DLOCK_COMMIT;
  std::string text = "dlock " DLOCK_VERSION "\n";
  if (!commit.empty()) text += fmt::format("built from commit {}\n", commit);
  for (const BackendFactory& b : backends())
    text += fmt::format("{}:{}{}\n", b.family, recipes_of(b),
                        b.note.empty() ? "" : fmt::format(" ({})", b.note));
  for (const AbsentBackend& a : absent_backends())
    text += fmt::format("{}: not built in (-D{}=ON)\n", a.family, a.option);
  text += "uses ";
  for (const std::string& library : libraries()) text += library + ", ";
  text += fmt::format(
      "fmt {}, nlohmann-json {}, toml++ {}, CLI11 {}, glibc {}\n",
      dotted(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100),
      dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH),
      toml_version(), cli11_version(), ::gnu_get_libc_version());
  return text;
}

}  // namespace dlock::cli
