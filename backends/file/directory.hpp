// SPDX-License-Identifier: Apache-2.0
// The directories of family `file`. dlock creates and opens them so that no other user can replace
// them.
//
//   <root>/<name of a key>/      recipe lease
//   <root>/.dlock/<name>/        recipe flock: side records for the files that others lock
//   <root>/.dlock-<uid>/<name>/  side records, if all users may write to the root
//
// A root is private or shared by a group. Below a private root, directories have mode 0700 and
// files have mode 0600. A root is shared if three conditions are true: it has the setgid bit or its
// group may write to it; not all users may write to it; we are root or in that group. Below a
// shared root, new directories have mode 2770, new files have mode 0660, and both have the root's
// group, whatever the umask is.
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
  bool group = false;  // whether the root is shared
  gid_t gid = 0;       // the root's group

  mode_t dir_mode() const noexcept { return group ? 02770 : 0700; }
  mode_t file_mode() const noexcept { return group ? 0660 : 0600; }
  // Errc::denied: the owner or the group is wrong, or others have too many rights. The message
  // names `path` and the reason.
  Result<void> admits(const struct stat&, std::string_view path) const;
};

struct Opened {
  Fd dir{};  // -1: it does not exist
  Access access;
};

class Directory {
 public:
  // How much of `path` dlock creates when a lock is taken. `last`: only the last component, for a
  // directory that a user named and may have misspelt.
  enum class Make { nothing, last, all };
  // `path` is absolute. `inner`: the name of the directory in `path` that contains the keys; empty:
  // `path` itself contains them. `netfs`: accept network filesystems.
  Directory(std::string path, std::string inner, Make make_root, bool netfs)
      : path_(std::move(path)), inner_(std::move(inner)), make_root_(make_root), netfs_(netfs) {}

  const std::string& path() const noexcept { return path_; }
  std::string path_of(std::string_view name) const;

  // Opens the root itself, without `inner`.
  Result<Opened> open_root(bool make) const;
  // Opens the directory of one key. Without `make`, a missing directory is not an error:
  // Opened::dir is -1 then.
  Result<Opened> open_key(const std::string& name, bool make) const;
  // Returns whether the path to the key's directory still leads to `dir`.
  Result<bool> leads_to(const std::string& name, const struct stat& dir) const;
  // Removes the key's directory with its contents. It may be missing.
  Result<void> remove_key(const std::string& name) const;
  // Returns the names in the directory of the keys, in byte order, except those that begin with a
  // dot.
  Result<std::vector<std::string>> names() const;

 private:
  Result<Opened> open_holder(bool make) const;

  std::string path_, inner_;
  Make make_root_;
  bool netfs_;
};

// Returns the name of the filesystem, if hosts that mount it do not see each other's flock(2) locks
// and FIFOs. nullopt: any other filesystem. `magic`: f_type of statfs(2).
std::optional<std::string_view> network_filesystem(unsigned long magic) noexcept;

// Opens what this process has just made under `name`. Another user with rename rights may have
// replaced it meanwhile, so the function follows no link, and checks type, owner and number of hard
// links. `type`: S_IFDIR or S_IFIFO. Returns an O_PATH descriptor; -1: errno says why.
Fd hold_made(int dir, const std::string& name, mode_t type);
// Sets the mode of a result of hold_made(). False: errno says why.
bool set_mode(int held, mode_t mode) noexcept;

// Sets group and mode of a file that this process has made and opened. Errc::denied: the file
// belongs to another user.
Result<void> give_rights(int fd, const Access& access, mode_t mode, std::string_view path);

// Makes the file `name` in `dir` with the mode and group of `access`. Where possible, the file gets
// its name only after its mode is set, so that others never see it with another mode. The file may
// exist already.
Result<void> make_shared_file(int dir, const std::string& name, const Access& access,
                              std::string_view path);

}  // namespace dlock::file
