// SPDX-License-Identifier: Apache-2.0
#include "file/factory.hpp"
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include "common/url_items.hpp"
#include "core/text.hpp"
#include "file/directory.hpp"
#include "file/flock/flock_backend.hpp"
#include "file/lease/lease_backend.hpp"
#include "file/sys_error.hpp"
#include "util/file.hpp"

namespace dlock::file {
namespace {

// The length of the longest encoded prefix. Prefix and name of a key must fit into a file name of
// 255 bytes.
constexpr std::size_t longest_prefix = 50;

// "/dir/" and "below" give "/dir/below".
std::string joined(std::string directory, std::string_view below) {
  while (directory.ends_with('/')) directory.pop_back();
  return directory.append("/").append(below);
}

std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Result<std::string> absolute(const std::string& path) {
  if (path.starts_with('/')) return without_end_slashes(path);
  char* const here = ::getcwd(nullptr, 0);
  if (!here) return fail_errno("current directory", ".", errno);
  std::string full = fmt::format("{}/{}", here, path);
  std::free(here);
  return without_end_slashes(std::move(full));
}

// What a URL means. `prefix`: the prefix of names, in the form that the recipe uses.
struct Parsed : Settings {
  Directory directory;
  std::string prefix;
  bool flock;
  bool of_all_users;  // with recipe flock: all users may write to the directory
};

Result<Parsed> parse(const Url& url, const Traits& traits, const Settings& settings) {
  const auto refuse = [&](std::string_view what) {
    return fail(Errc::usage, "backend URL {}: {}", printable(url.redacted()), what);
  };
  if (!url.hosts.empty() || !url.user.empty() || !url.password.empty())
    return refuse(
        "file takes a directory and no host; allowed are file:, file:DIR and file:///DIR");
  const UrlItems given{items, url, traits, settings};
  TRY_VOID(given.verdict());
  const auto answer = given.text("netfs");
  const bool netfs = answer == "yes" || answer == "1" || answer == "true" || answer == "on";
  std::string prefix{url.item("prefix").value_or("")};
  std::string encoded = percent_encode(prefix);
  if (encoded.starts_with('.')) encoded.replace(0, 1, "%2E");
  if (encoded.size() > longest_prefix)
    return refuse(
        fmt::format("its prefix is too long; at most {} bytes are allowed, where a byte outside "
                    "A-Z a-z 0-9 . _ - counts as three",
                    longest_prefix));
  const bool flock = traits.recipe == "flock";
  if (flock && url.path.empty())
    return refuse(
        "recipe flock needs the directory of the files that others lock: file:///DIR?recipe=flock");
  if (flock && prefix.find('/') != prefix.npos)
    return refuse("a prefix of recipe flock has no '/'");
  TRY(path, url.path.empty() ? default_directory() : absolute(url.path));
  if (flock) {
    struct stat st {};
    const bool all = ::stat(path.c_str(), &st) == 0 && (st.st_mode & S_IWOTH) != 0;
    std::string records = all ? fmt::format(".dlock-{}", ::geteuid()) : ".dlock";
    return Parsed{settings,
                  Directory(std::move(path), std::move(records), Directory::Make::nothing, netfs),
                  std::move(prefix), true, all};
  }
  const auto make = url.path.empty() ? Directory::Make::all : Directory::Make::last;
  return Parsed{settings, Directory(std::move(path), {}, make, netfs), std::move(encoded), false,
                false};
}

}  // namespace

Result<std::string> default_directory() {
  if (::geteuid() == 0) return "/var/lib/dlock";
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && state[0] == '/')
    return joined(state, "dlock");
  const std::string home = home_directory();
  if (home.empty())
    return fail(Errc::cannot_create,
                "backend file: has no directory, because HOME and XDG_STATE_HOME are not set; name "
                "one with -b file:/dir");
  return joined(home, ".local/state/dlock");
}

Result<Opener> prepare(const Url& url, const Traits& traits, const Settings& settings) {
  TRY(parsed, parse(url, traits, settings));
  return opener(std::move(parsed), [&traits](const Parsed& p) -> Result<std::unique_ptr<Backend>> {
    if (p.flock)
      return std::make_unique<FlockBackend>(p.directory, p.prefix, p.of_all_users, traits, p);
    return std::make_unique<LeaseBackend>(p.directory, p.prefix, traits, p, Tuning{});
  });
}

std::string makes(const Url& url, const Traits& traits, bool locks) {
  const auto path = url.path.empty() ? std::string() : absolute(url.path).value_or("");
  struct stat there {};
  if (!url.hosts.empty()) return {};  // prepare() refuses such a URL
  if (path.empty() || traits.recipe == "flock" || ::stat(path.c_str(), &there) == 0) return {};
  const std::string above = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  if (::stat(above.c_str(), &there) != 0)
    return locks ? ""
                 : fmt::format("lock directory {} does not exist, and neither does {}",
                               printable(path), printable(above));
  return fmt::format("lock directory {} does not exist; the first lock makes it", printable(path));
}

std::unique_ptr<Backend> open_lease(const std::string& directory, const Settings& settings,
                                    const Tuning& tuning) {
  return std::make_unique<LeaseBackend>(Directory(directory, {}, Directory::Make::all, false),
                                        std::string{}, recipes[0], settings, tuning);
}

}  // namespace dlock::file
