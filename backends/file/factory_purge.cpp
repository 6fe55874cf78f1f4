// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>
#include <cerrno>
#include "core/text.hpp"
#include "file/directory.hpp"
#include "file/factory.hpp"
#include "file/sys_error.hpp"

namespace dlock::file {
namespace {

// The file that was locked: the caller of purge made it.
Result<void> remove_file(const Directory& where, const std::string& name) {
  TRY(root, where.open_root(false));
  if (root.dir && ::unlinkat(root.dir.get(), name.c_str(), 0) && errno != ENOENT)
    return fail_errno("remove", where.path() + "/" + name, errno);
  return {};
}

}  // namespace

Result<void> purge(const Url& url, const Traits& traits, const Settings& settings,
                   std::span<const Key> keys) {
  const auto backend = open(url, traits, settings);  // checks the URL
  if (!backend) return fail(backend.error());
  const std::string path = (*backend)->where().substr(std::string_view("file:").size());
  const std::string prefix{url.item("prefix").value_or("")};
  const bool flock = traits.recipe == "flock";
  const Directory where(path, flock ? ".dlock" : "", Directory::Make::nothing, true);
  std::string encoded = percent_encode(prefix);
  if (encoded.starts_with('.')) encoded.replace(0, 1, "%2E");
  for (const Key& key : keys) {
    if (flock)
      if (auto gone = remove_file(where, prefix + key.text()); !gone) return gone;
    const std::string name =
        flock ? store_name(*Key::parse(prefix + key.text())) : encoded + store_name(key);
    if (auto gone = where.remove_key(name); !gone) return gone;
  }
  return {};
}

}  // namespace dlock::file
