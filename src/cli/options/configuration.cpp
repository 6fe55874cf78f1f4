// SPDX-License-Identifier: Apache-2.0
#include "cli/options/configuration.hpp"
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>
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
#include "util/named_file.hpp"

namespace dlock::cli {
namespace {

constexpr std::size_t longest = 1 << 20;
// for files that are written while we read: --config <(...)
constexpr Duration patience = std::chrono::seconds{10};

std::string_view kept(std::string text) {
  static std::deque<std::string>* const texts = new std::deque<std::string>;
  return texts->emplace_back(std::move(text));
}

// A user who can write there decides where the locks are.
Result<void> trusted(int fd, const std::string& path) {
  struct stat st {};
  const auto refuse = [&](std::string_view why) {
    return fail(Errc::config, fmt::format("{}: {}", printable(path), why));
  };
  if (::fstat(fd, &st)) return refuse(::strerrordesc_np(errno));
  if (S_ISDIR(st.st_mode)) return refuse("is a directory");
  if (st.st_uid != 0 && st.st_uid != ::geteuid())
    return refuse("belongs neither to you nor to root");
  if (st.st_mode & S_IWOTH) return refuse("all users may write to it; use chmod o-w");
  return {};
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
  if (auto good = trusted(fd.get(), file.path); !good) return fail(good.error());
  auto text = read_text(fd.get(), {.longest = longest, .until = later(Clock::now(), patience)});
  if (text) return text;
  if (errno == EFBIG) return refuse("is longer than 1 MiB");
  if (errno == ETIMEDOUT) return refuse("this FIFO has no writer, or it does not finish");
  return refuse(::strerrordesc_np(errno));
}

std::string user_file() {
  if (const char* xdg = std::getenv("XDG_CONFIG_HOME"); xdg && xdg[0] == '/')
    return fmt::format("{}/dlock/config.toml", xdg);
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): no thread exists
  if (!home || home[0] != '/') {
    const passwd* entry = ::getpwuid(::geteuid());  // NOLINT(concurrency-mt-unsafe)
    home = entry ? entry->pw_dir : nullptr;
  }
  return home && home[0] == '/' ? fmt::format("{}/.config/dlock/config.toml", home) : std::string();
}

}  // namespace

Result<std::vector<Entry>> read_configuration(const std::vector<ConfigFile>& files,
                                              std::string_view profile) {
  std::vector<Entry> entries;
  bool known = profile.empty();
  const auto count = static_cast<unsigned>(files.size());
  for (unsigned i = 0; i < count; ++i) {
    auto text = contents(files[i]);
    if (!text) return fail(text.error());
    if (!*text) continue;
    auto lines = parse_toml(**text, files[i].path);
    if (!lines) return fail(lines.error());
    for (TomlLine& line : *lines) {
      const bool chosen = !profile.empty() && line.profile == profile;
      known |= chosen;
      // another profile, or an empty one
      if ((!line.profile.empty() && !chosen) || line.name.empty()) continue;
      entries.push_back({kept(std::move(line.name)), kept(std::move(line.value)),
                         kept(fmt::format("{}:{}", printable(files[i].path), line.number)),
                         chosen ? i : count + i});
    }
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
