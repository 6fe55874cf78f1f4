// SPDX-License-Identifier: Apache-2.0
// The directories of family `file`: created and opened so that no other user can replace them.
//
//   <root>/<name of a key>/      recipe lease
//   <root>/.dlock/<name>/        recipe flock: side records beside the files of others
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

// Required ownership and modes below a root.
struct Access {
  uid_t euid = 0;
  bool group = false;
  gid_t gid = 0;  // of the root

  mode_t dir_mode() const noexcept { return group ? 02770 : 0700; }
  mode_t file_mode() const noexcept { return group ? 0660 : 0600; }
  // Errc::denied with the reason, naming `path`: a wrong owner, or more rights for others than the
  // mode above.
  Result<void> admits(const struct stat&, std::string_view path) const;
};

struct Opened {
  Fd dir{};  // -1: does not exist
  Access access;
};

class Directory {
 public:
  // The part of `path` that is made when a lock is taken: a directory that was named may be
  // misspelt, so only its last component.
  enum class Make { nothing, last, all };
  // `path` is absolute. `inner`: the directory in it that holds the keys, or empty. `netfs`: accept
  // network filesystems.
  Directory(std::string path, std::string inner, Make make_root, bool netfs)
      : path_(std::move(path)), inner_(std::move(inner)), make_root_(make_root), netfs_(netfs) {}

  const std::string& path() const noexcept { return path_; }
  std::string path_of(std::string_view name) const;

  // The root itself, without `inner`.
  Result<Opened> open_root(bool make) const;
  // The directory of one key. Not `make`: an absent one is a value.
  Result<Opened> open_key(const std::string& name, bool make) const;
  // Whether the path to the directory of that key still leads to `dir`.
  Result<bool> leads_to(const std::string& name, const struct stat& dir) const;
  // With its contents. A missing one is fine.
  Result<void> remove_key(const std::string& name) const;
  // The names in the directory that contains the keys, in byte order, without names that begin with
  // a dot.
  Result<std::vector<std::string>> names() const;

 private:
  Result<Opened> open_holder(bool make) const;

  std::string path_, inner_;
  Make make_root_;
  bool netfs_;
};

// The name of a filesystem on which flock and FIFOs do not reach every host that mounts it, or
// nothing. `magic`: statfs(2) f_type.
std::optional<std::string_view> network_filesystem(unsigned long magic) noexcept;

// Opens what this process has just made under `name`, of that type (S_IFDIR, S_IFIFO). Another user
// with rename rights may have replaced it since, so it is held by an O_PATH descriptor, not through
// a link, and checked. -1: errno.
Fd hold_made(int dir, const std::string& name, mode_t type);
bool set_mode(int held, mode_t mode) noexcept;  // of a result of hold_made; false: errno

// Sets group and mode of a file that this process has made and opened. Errc::denied: it belongs to
// another user.
Result<void> give_rights(int fd, const Access& access, mode_t mode, std::string_view path);

// Makes `name` in `dir` with the modes of `access`, by a rename where that is possible, so that it
// is never visible with others. Existing: fine.
Result<void> make_shared_file(int dir, const std::string& name, const Access& access,
                              std::string_view path);

}  // namespace dlock::file
