// SPDX-License-Identifier: Apache-2.0
// The directories of family `file`: created and opened so that no other user can replace them.
//
//   <root>/<name of a key>/      recipe lease
//   <root>/.dlock/<name>/        recipe flock: side records beside the files of others
//   <root>/.dlock-<uid>/<name>/  the same, if all users may write to the root
//
// A root is private (0700 and 0600 below it) or shared by a group: it has the setgid bit or is
// writable by its group, and not by all users. Then new files below it are 2770 and 0660 and have
// the root's group, whatever the umask.
#pragma once
#include <sys/stat.h>
#include <sys/types.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "core/error.hpp"
#include "util/fd.hpp"

namespace dlock::file {

// The ownership and modes that are required below a root.
struct Access {
  uid_t euid = 0;
  bool group = false;
  gid_t gid = 0;  // the root's group

  mode_t dir_mode() const noexcept { return group ? 02770 : 0700; }
  mode_t file_mode() const noexcept { return group ? 0660 : 0600; }
  // Errc::denied names `path` and the reason: a wrong owner, or more rights for others than the
  // mode above.
  Result<void> admits(const struct stat&, std::string_view path) const;
};

struct Opened {
  Fd dir{};  // -1: does not exist
  Access access;
};

class Directory {
 public:
  // How much of `path` is created when a lock is taken. The name of a directory may be misspelt, so
  // only its last component is created.
  enum class Make { nothing, last, all };
  // `path` is absolute. `inner`: the directory in it that holds the keys, or empty. `netfs`: accept
  // network filesystems.
  Directory(std::string path, std::string inner, Make make_root, bool netfs)
      : path_(std::move(path)), inner_(std::move(inner)), make_root_(make_root), netfs_(netfs) {}

  const std::string& path() const noexcept { return path_; }
  std::string path_of(std::string_view name) const;

  // Opens the root itself, without `inner`.
  Result<Opened> open_root(bool make) const;
  // Opens the directory of one key. Without `make`, a missing directory is a result and not an
  // error.
  Result<Opened> open_key(const std::string& name, bool make) const;
  // Whether the path to the key's directory still leads to `dir`.
  Result<bool> leads_to(const std::string& name, const struct stat& dir) const;
  // Removes it with its contents. It may be missing.
  Result<void> remove_key(const std::string& name) const;
  // The names in the directory of the keys, in byte order, without names that begin with a dot.
  Result<std::vector<std::string>> names() const;

 private:
  Result<Opened> open_holder(bool make) const;

  std::string path_, inner_;
  Make make_root_;
  bool netfs_;
};

// The name of a filesystem on which flock and FIFOs do not reach every host that mounts it; nothing
// for another one. `magic`: f_type of statfs(2).
std::optional<std::string_view> network_filesystem(unsigned long magic) noexcept;

// Opens what this process has just made under `name`, if it has that type (S_IFDIR, S_IFIFO).
// Another user with rename rights may have replaced it since, so it is opened as an O_PATH
// descriptor, not through a link, and checked. -1: errno says why.
Fd hold_made(int dir, const std::string& name, mode_t type);
// for a result of hold_made(); false: errno says why
bool set_mode(int held, mode_t mode) noexcept;

// Sets group and mode of a file that this process has made and opened. Errc::denied: it belongs to
// another user.
Result<void> give_rights(int fd, const Access& access, mode_t mode, std::string_view path);

// Makes `name` in `dir` with the modes of `access`. A rename makes it visible where that is
// possible, so that others never see it with other modes. It may exist.
Result<void> make_shared_file(int dir, const std::string& name, const Access& access,
                              std::string_view path);

}  // namespace dlock::file
