// SPDX-License-Identifier: Apache-2.0
#include "file/purge.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include "file/directory.hpp"
#include "file/file_backend.hpp"
#include "file/sys_error.hpp"

namespace dlock::file {
namespace {

// The directory of one key and all that is in it.
Result<void> remove_key(const Directory& where, const std::string& inner, const std::string& name) {
  const auto root = where.open_root(false);
  if (!root) return fail(root.error());
  const auto key = where.open_key(name, false);
  if (!key) return fail(key.error());
  if (!key->dir) return {};
  const int again = ::fcntl(key->dir.get(), F_DUPFD_CLOEXEC, 3);
  DIR* const entries = again < 0 ? nullptr : ::fdopendir(again);
  if (!entries) {
    const int why = errno;
    if (again >= 0) ::close(again);
    return fail_errno("remove", where.path_of(name), why);
  }
  while (const dirent* e = ::readdir(entries))  // NOLINT(concurrency-mt-unsafe): a stream of our own
    if (const std::string_view it = e->d_name; it != "." && it != "..") ::unlinkat(key->dir.get(), e->d_name, 0);
  ::closedir(entries);
  const std::string path = inner.empty() ? name : inner + "/" + name;
  if (::unlinkat(root->dir.get(), path.c_str(), AT_REMOVEDIR) && errno != ENOENT)
    return fail_errno("remove", where.path_of(name), errno);
  return {};
}

// The file that was locked: whoever purges has made it.
Result<void> remove_file(const Directory& where, const std::string& name) {
  const auto root = where.open_root(false);
  if (!root) return fail(root.error());
  if (root->dir && ::unlinkat(root->dir.get(), name.c_str(), 0) && errno != ENOENT)
    return fail_errno("remove", where.path() + "/" + name, errno);
  return {};
}

}  // namespace

Result<void> purge(const Url& url, const Traits& traits, const Settings& settings, std::span<const Key> keys) {
  const auto backend = open(url, traits, settings);  // judges the URL
  if (!backend) return fail(backend.error());
  const std::string path = (*backend)->where().substr(std::string_view("file:").size());
  const std::string prefix{url.item("prefix").value_or("")};
  const bool flock = traits.recipe == "flock";
  const std::string inner = flock ? ".dlock" : "";
  const Directory where(path, inner, false, true);
  std::string encoded = percent_encode(prefix);
  if (encoded.starts_with('.')) encoded.replace(0, 1, "%2E");
  for (const Key& key : keys) {
    if (flock)
      if (auto gone = remove_file(where, prefix + key.text()); !gone) return gone;
    const std::string name = flock ? store_name(*Key::parse(prefix + key.text())) : encoded + store_name(key);
    if (auto gone = remove_key(where, inner, name); !gone) return gone;
  }
  return {};
}

}  // namespace dlock::file
