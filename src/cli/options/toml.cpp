// SPDX-License-Identifier: Apache-2.0
#include "cli/options/toml.hpp"
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#include <fmt/format.h>
// toml++ asserts that a time begins with a digit, and says so to the compiler in an optimised build;
// a file may hold `1979-05-27T:`. Its own checks follow, and must not be optimised away.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
#include <algorithm>
#include "core/text.hpp"

namespace dlock::cli {
namespace {

tl::unexpected<Error> wrong(std::string_view path, const toml::source_position& at,
                            std::string_view what) {
  return fail(Errc::config, fmt::format("{}:{}: {}", printable(path), at.line, printable(what)));
}

Result<void> add(std::vector<TomlLine>& to, const toml::table& table, const std::string& profile,
                 std::string_view path) {
  for (const auto& [key, node] : table) {
    const auto at = node.source().begin;
    TomlLine line{profile, std::string(key.str()), {}, at.line};
    if (const auto* text = node.as_string()) line.value = text->get();
    else if (const auto* number = node.as_integer()) line.value = fmt::to_string(number->get());
    else if (const auto* real = node.as_floating_point()) line.value = fmt::to_string(real->get());
    else if (const auto* yes = node.as_boolean()) line.value = yes->get() ? "true" : "false";
    else
      return wrong(path, at, fmt::format("{}: must be text, a number, true or false", key.str()));
    if (line.value.empty()) return wrong(path, at, fmt::format("{}: must not be empty", key.str()));
    to.push_back(std::move(line));
  }
  return {};
}

}  // namespace

Result<std::vector<TomlLine>> parse_toml(std::string_view text, std::string_view path) {
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) return wrong(path, parsed.error().source().begin, parsed.error().description());
  toml::table document = std::move(parsed).table();

  std::vector<TomlLine> lines;
  if (const auto* profiles = document.get_as<toml::table>("profile")) {
    for (const auto& [name, node] : *profiles) {
      const auto* profile = node.as_table();
      if (!profile)
        return wrong(path, node.source().begin,
                     fmt::format("profile.{0}: must be a table, [profile.{0}]", name.str()));
      lines.push_back({std::string(name.str()), {}, {}, node.source().begin.line});
      if (auto done = add(lines, *profile, std::string(name.str()), path); !done)
        return fail(done.error());
    }
    document.erase("profile");
  }
  if (auto done = add(lines, document, {}, path); !done) return fail(done.error());
  std::stable_sort(lines.begin(), lines.end(),
                   [](const TomlLine& a, const TomlLine& b) { return a.number < b.number; });
  return lines;
}

std::string toml_version() {
  return fmt::format("{}.{}.{}", TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH);
}

}  // namespace dlock::cli
