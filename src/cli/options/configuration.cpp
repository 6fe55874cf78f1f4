// SPDX-License-Identifier: Apache-2.0
#include "cli/options/configuration.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include "cli/options/toml.hpp"
#include "core/clock.hpp"
#include "core/text.hpp"
#include "util/fd.hpp"
#include "util/file.hpp"
#include "util/named_file.hpp"

namespace dlock::cli {
namespace {

constexpr std::size_t longest_file = 1 << 20;

std::string_view kept(std::string text) {
  static std::deque<std::string>* const texts = new std::deque<std::string>;
  return texts->emplace_back(std::move(text));
}

// nullopt: does not exist.
Result<std::optional<std::string>> contents(const ConfigFile& file) {
  const Fd fd = open_to_read(file.path);
  if (!fd && !file.required && (errno == ENOENT || errno == ENOTDIR))
    return std::optional<std::string>{};
  const auto refuse = [&](std::string_view why) {
    return fail(Errc::config, fmt::format("{}: {}", printable(file.path), why));
  };
  if (!fd) return refuse(::strerrordesc_np(errno));
  // Users who can write there decide where the locks are.
  if (const auto why = distrust(fd.get(), {.forbidden = S_IWOTH, .regular = false}); !why.empty())
    return refuse(why);
  auto text =
      read_text(fd.get(), {.longest = longest_file, .until = later(Clock::now(), fifo_patience)});
  if (text) return text;
  if (errno == EFBIG) return refuse("is longer than 1 MiB");
  if (errno == ETIMEDOUT) return refuse("this FIFO has no writer, or it does not finish");
  return refuse(::strerrordesc_np(errno));
}

std::string user_file() {
  if (const char* xdg = std::getenv("XDG_CONFIG_HOME"); xdg && xdg[0] == '/')
    return fmt::format("{}/dlock/config.toml", xdg);
  const std::string home = home_directory();
  return home.empty() ? home : home + "/.config/dlock/config.toml";
}

}  // namespace

bool is_secret(std::string_view option) noexcept {
  constexpr std::string_view secrets[] = {"password-file", "auth-file", "tls-ca", "tls-cert",
                                          "tls-key"};
  return std::find(std::begin(secrets), std::end(secrets), option) != std::end(secrets);
}

Result<std::vector<Entry>> read_configuration(const std::vector<ConfigFile>& files,
                                              std::string_view profile) {
  std::vector<Entry> entries;
  bool known = profile.empty();
  const auto count = static_cast<unsigned>(files.size());
  for (unsigned i = 0; i < count; ++i) {
    TRY(text, contents(files[i]));
    if (!text) continue;
    TRY(lines, parse_toml(*text, files[i].path));
    for (TomlLine& line : lines) {
      const bool chosen = !profile.empty() && line.profile == profile;
      known |= chosen;
      // another profile, or an empty one
      if ((!line.profile.empty() && !chosen) || line.name.empty()) continue;
      entries.push_back({kept(std::move(line.name)), kept(std::move(line.value)),
                         kept(fmt::format("{}:{}", printable(files[i].path), line.number)),
                         chosen ? i : count + i});
    }
  }
  for (Entry& e : entries) {
    if (!is_secret(e.name)) continue;
    const auto own = std::find_if(entries.begin(), entries.end(), [&](const Entry& other) {
      return other.layer == e.layer && other.name == "backend";
    });
    if (own == entries.end())
      return fail(Errc::config, fmt::format("{}: {}: this table names no backend that it is for",
                                            e.where, e.name));
    e.backend = own->value;
  }
  if (!known)
    return fail(Errc::config, fmt::format("--profile: no configuration file has [profile.{}]",
                                          printable(profile)));
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.layer < b.layer; });
  return entries;
}

Result<std::vector<Entry>> read_configuration(const Options& o) {
  std::vector<ConfigFile> files;
  if (!o.config.empty()) files.push_back({std::string(o.config), true});
  if (std::string user = user_file(); !user.empty()) files.push_back({std::move(user), false});
  files.push_back({"/etc/dlock/config.toml", false});
  return read_configuration(files, o.profile);
}

}  // namespace dlock::cli
