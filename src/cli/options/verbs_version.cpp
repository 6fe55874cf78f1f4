// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <nlohmann/json.hpp>
#include "cli/options/configuration.hpp"
#include "cli/options/option_table.hpp"
#include "cli/options/verbs.hpp"
#include "dlock_version.hpp"
#include "store/factory.hpp"

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

// Returns the versions of header-only libraries and of the C library.
std::vector<std::string> headers() {
  return {"fmt " + dotted(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100),
          "nlohmann-json " + dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                    NLOHMANN_JSON_VERSION_PATCH),
          "toml++ " + toml_version(), fmt::format("CLI11 {}", cli11_version()),
          fmt::format("glibc {}", ::gnu_get_libc_version())};
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
  for (const std::string& library : headers()) text += library + ", ";
  text.replace(text.size() - 2, 2, "\n");
  return text;
}

std::string version_json() {
  using Json = nlohmann::ordered_json;
  constexpr std::string_view commit = DLOCK_COMMIT;
  Json j{{"version", version()}, {"commit", commit.empty() ? Json(nullptr) : Json(commit)}};
  j["backends"] = Json::array();
  for (const BackendFactory& b : backends()) {
    Json recipes = Json::array();
    for (const Traits& t : b.recipes) recipes.push_back(t.recipe);
    j["backends"].push_back({{"family", b.family},
                             {"schemes", b.schemes},
                             {"recipes", recipes},
                             {"default", b.recipes.front().recipe},
                             {"note", b.note.empty() ? Json(nullptr) : Json(b.note)}});
  }
  j["not_built_in"] = Json::array();
  for (const AbsentBackend& a : absent_backends()) j["not_built_in"].push_back(a.family);
  j["libraries"] = libraries();
  for (const std::string& library : headers()) j["libraries"].push_back(library);
  return j.dump() + '\n';
}

}  // namespace dlock::cli
