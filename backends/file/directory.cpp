// SPDX-License-Identifier: Apache-2.0
#include "file/directory.hpp"
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include "core/owner.hpp"
#include "core/text.hpp"
#include "file/sys_error.hpp"

namespace dlock::file {
namespace {

constexpr int dir_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

bool member_of(gid_t gid) {
  if (::getegid() == gid) return true;
  std::array<gid_t, 1024> groups;
  const int n = ::getgroups(static_cast<int>(groups.size()), groups.data());
  return n > 0 && std::find(groups.begin(), groups.begin() + n, gid) != groups.begin() + n;
}

std::string user_name(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return entry ? fmt::format("{} (uid {})", printable(entry->pw_name), uid)
               : fmt::format("uid {}", uid);
}

// Opens a lock directory. A symbolic link to it is followed only if nobody but our user or user
// root can have made the link.
Fd open_root_dir(const std::string& path) {
  Fd dir(::open(path.c_str(), dir_flags | O_NOFOLLOW));
  if (dir || (errno != ELOOP && errno != ENOTDIR)) return dir;
  const int why = errno;
  struct stat link {};
  if (::lstat(path.c_str(), &link) || !S_ISLNK(link.st_mode) ||
      (link.st_uid != 0 && link.st_uid != ::geteuid())) {
    errno = why;
    return dir;
  }
  return Fd(::open(path.c_str(), dir_flags));
}

// A concurrent process may make the same directory, so check owner and mode when it is open.
bool make_one(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    const Fd made = hold_made(AT_FDCWD, path, S_IFDIR);
    return made && set_mode(made.get(), 0700);  // whatever the umask is
  }
  struct stat there {};
  // If the parent is read-only or forbidden, mkdir(2) may fail with another errno than EEXIST
  // although the directory exists.
  const int why = errno;
  const bool exists = why == EEXIST || ::stat(path.c_str(), &there) == 0;
  errno = why;
  return exists;
}

// Like mkdir -p.
bool make_parents(const std::string& path) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    if (!make_one(path.substr(0, at))) return false;
  }
  return true;
}

Result<Access> judge_root(int fd, const std::string& path) {
  struct stat st {};
  if (::fstat(fd, &st)) return fail_errno("lock directory", path, errno);
  Access a;
  a.euid = ::geteuid();
  a.gid = st.st_gid;
  const bool world_writable = st.st_mode & S_IWOTH;
  if (world_writable && !(st.st_mode & S_ISVTX))
    return fail(Errc::denied,
                "lock directory {}: all users may write to it, so any of "
                "them could replace a lock; use chmod o-w",
                printable(path));
  a.group = !world_writable && (st.st_mode & (S_ISGID | S_IWGRP)) &&
            (a.euid == 0 || member_of(st.st_gid));
  if (!a.group && st.st_uid != 0 && st.st_uid != a.euid)
    return fail(Errc::denied,
                "lock directory {}: belongs to {}; for a directory that several users "
                "share, give it a group that they are in and mode 2770",
                printable(path), user_name(st.st_uid));
  return a;
}

Fd open_below(int dir, const std::string& name) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(dir_flags | O_NOFOLLOW);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, dir, name.c_str(), &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return Fd(static_cast<int>(fd));
  // the kernel is old, or a filter forbids the call; `name` is one component
  return Fd(::openat(dir, name.c_str(), dir_flags | O_NOFOLLOW));
}

std::string temporary_name() { return ".new." + Owner::random().hex(); }

// A file shared by a group gets its rights under a temporary name, before others see it under its
// own name. If renameat2 does not work (because of the filesystem or a seccomp filter), the file is
// made under its own name at once. In that case, others may see the file before its rights are set,
// with only the rights that a strict umask has left.
enum class Made { renamed, in_place };

bool rename_new(int dir, const std::string& from, const std::string& to) {
  return ::renameat2(dir, from.c_str(), dir, to.c_str(), RENAME_NOREPLACE) == 0;
}

// glibc returns EINVAL if the kernel has no such call
bool cannot_rename_new(int why) { return why == EINVAL || why == ENOSYS || why == EPERM; }

Result<void> make_key_dir(int parent, const std::string& name, const Access& a,
                          const std::string& path, Made how = Made::renamed) {
  const bool rename = a.group && how == Made::renamed;
  const std::string made = rename ? temporary_name() : name;
  if (::mkdirat(parent, made.c_str(), a.dir_mode())) {
    if (errno == EEXIST) return {};
    return fail_errno("create", path, errno);
  }
  Fd dir = open_below(parent, made);
  if (!dir && errno == EACCES)  // the umask denies the rights even to the owner
    if (const Fd held = hold_made(parent, made, S_IFDIR);
        held && set_mode(held.get(), a.dir_mode()))
      dir = open_below(parent, made);
  if (!dir && errno == ENOENT) return {};  // the directory was deleted meanwhile
  if (!dir) return fail_errno("create", path, errno);
  if (auto given = give_rights(dir.get(), a, a.dir_mode(), path); !given) {
    ::unlinkat(parent, made.c_str(), AT_REMOVEDIR);
    return given;
  }
  if (!rename || rename_new(parent, made, name)) return {};
  const int why = errno;
  ::unlinkat(parent, made.c_str(), AT_REMOVEDIR);
  if (why == EEXIST) return {};
  if (cannot_rename_new(why)) return make_key_dir(parent, name, a, path, Made::in_place);
  return fail_errno("create", path, why);
}

Result<Opened> open_child(const Opened& parent, const std::string& name, bool make,
                          const std::string& path) {
  Fd dir = open_below(parent.dir.get(), name);
  for (int tries = 0; !dir && errno == ENOENT && tries < 10; ++tries) {
    if (!make) return Opened{Fd(), parent.access};
    TRY_VOID(make_key_dir(parent.dir.get(), name, parent.access, path));
    dir = open_below(parent.dir.get(), name);
  }
  if (!dir) {
    if (errno == ELOOP || errno == ENOTDIR)
      return fail(Errc::denied, "lock directory {}: is not a directory; it was replaced",
                  printable(path));
    return fail_errno("lock directory", path, errno);
  }
  struct stat st {};
  if (::fstat(dir.get(), &st)) return fail_errno("lock directory", path, errno);
  TRY_VOID(parent.access.admits(st, path));
  return Opened{std::move(dir), parent.access};
}

}  // namespace

Fd hold_made(int dir, const std::string& name, mode_t type) {
  Fd made(::openat(dir, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!made || ::fstat(made.get(), &st)) return Fd();
  const bool alone = S_ISDIR(st.st_mode) || st.st_nlink == 1;
  if ((st.st_mode & S_IFMT) == type && st.st_uid == ::geteuid() && alone) return made;
  errno = EPERM;
  return Fd();
}

// fchmod(2) does not work with an O_PATH descriptor. So this function uses the descriptor's link in
// /proc: the kernel makes that link, and it leads nowhere else.
bool set_mode(int held, mode_t mode) noexcept {
  struct stat st {};
  // this check also works without /proc
  if (::fstat(held, &st) == 0 && (st.st_mode & 07777) == mode) return true;
  return ::chmod(fmt::format("/proc/self/fd/{}", held).c_str(), mode) == 0;
}

Result<void> give_rights(int fd, const Access& a, mode_t mode, std::string_view path) {
  struct stat st {};
  if (::fstat(fd, &st)) return fail_errno("lock directory", path, errno);
  if (st.st_uid != a.euid)
    return fail(Errc::denied, "{}: another user has replaced it", printable(path));
  if (a.group && st.st_gid != a.gid && ::fchown(fd, static_cast<uid_t>(-1), a.gid))
    return fail_errno("chgrp", path, errno);
  if ((st.st_mode & 07777) != mode && ::fchmod(fd, mode)) return fail_errno("chmod", path, errno);
  return {};
}

Result<void> Access::admits(const struct stat& st, std::string_view path) const {
  const bool mine = group ? st.st_gid == gid : (st.st_uid == euid || st.st_uid == 0);
  if (!mine)
    return fail(Errc::denied,
                group
                    ? fmt::format("{}: has group {} instead of {}, the group of the lock directory",
                                  printable(path), st.st_gid, gid)
                    : fmt::format("{}: belongs to {}", printable(path), user_name(st.st_uid)));
  const mode_t allowed = S_ISDIR(st.st_mode) ? (group ? 07775 : 07755) : file_mode();
  if (st.st_mode & 07777 & ~allowed)
    return fail(Errc::denied,
                "{}: has mode {:04o}, which lets others in; at most {:04o} is allowed",
                printable(path), st.st_mode & 07777, allowed & 0777);
  return {};
}

std::string Directory::path_of(std::string_view name) const {
  return fmt::format("{}/{}{}{}", path_ == "/" ? "" : path_, inner_, inner_.empty() ? "" : "/",
                     name);
}

Result<Opened> Directory::open_root(bool make) const {
  Fd dir = open_root_dir(path_);
  if (!dir && errno == ENOENT) {
    if (!make || make_root_ == Make::nothing) return Opened{};
    if (make_root_ == Make::last && !make_one(path_)) {
      const int why = errno;
      const std::string above = path_.substr(0, std::max<std::size_t>(path_.rfind('/'), 1));
      struct stat there {};
      if (why != ENOENT || ::stat(above.c_str(), &there) == 0)  // mkdir in /proc gives ENOENT
        return fail_errno("create lock directory", path_, why);
      return fail(Errc::cannot_create,
                  "lock directory {}: {} does not exist either; only the last part of "
                  "a directory that was named is made",
                  printable(path_), printable(above));
    }
    if (make_root_ == Make::all && !make_parents(path_))
      return fail_errno("create lock directory", path_, errno);
    dir = open_root_dir(path_);
  }
  if (!dir) return fail_errno("lock directory", path_, errno);
  TRY(access, judge_root(dir.get(), path_));
  struct statfs fs {};
  if (::fstatfs(dir.get(), &fs)) return fail_errno("lock directory", path_, errno);
  if (const auto net = network_filesystem(static_cast<unsigned long>(fs.f_type)); net && !netfs_)
    return fail(
        Errc::cannot_create,
        "lock directory {}: is on a network filesystem ({}), where locks do not reach other "
        "hosts; use a local directory (-b file:/dir), or ?netfs=yes if only one host uses it",
        printable(path_), *net);
  return Opened{std::move(dir), access};
}

Result<Opened> Directory::open_holder(bool make) const {
  auto root = open_root(make);
  if (!root || !root->dir || inner_.empty()) return root;
  return open_child(*root, inner_, make, path_ + "/" + inner_);
}

Result<Opened> Directory::open_key(const std::string& name, bool make) const {
  auto holder = open_holder(make);
  if (!holder) return holder;
  if (!holder->dir) {
    if (make)
      return fail(Errc::cannot_create, "lock directory {}: does not exist", printable(path_));
    return holder;
  }
  return open_child(*holder, name, make, path_of(name));
}

Result<bool> Directory::leads_to(const std::string& name, const struct stat& dir) const {
  struct stat there {};
  int failed = -1;
  if (inner_.empty()) {
    // below the root there is only one component, and lstat(2) does not follow it if it is a link
    failed = ::lstat(path_of(name).c_str(), &there);
  } else if (const Fd root(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)); root) {
    const Fd holder = open_below(root.get(), inner_);
    if (holder) failed = ::fstatat(holder.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW);
  }
  if (failed == 0) return there.st_ino == dir.st_ino && there.st_dev == dir.st_dev;
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return false;
  return fail_errno("open", path_of(name), errno);
}

Result<void> Directory::remove_key(const std::string& name) const {
  TRY(key, open_key(name, false));
  if (!key.dir) return {};
  Fd again(::openat(key.dir.get(), ".", dir_flags));
  DIR* const entries = again ? ::fdopendir(again.get()) : nullptr;
  if (!entries) return fail_errno("remove", path_of(name), errno);
  again.release();
  // NOLINT(concurrency-mt-unsafe): a stream of our own
  while (const dirent* e = ::readdir(entries))
    if (const std::string_view it = e->d_name; it != "." && it != "..")
      ::unlinkat(key.dir.get(), e->d_name, 0);
  ::closedir(entries);
  TRY(holder, open_holder(false));
  if (holder.dir && ::unlinkat(holder.dir.get(), name.c_str(), AT_REMOVEDIR) && errno != ENOENT)
    return fail_errno("remove", path_of(name), errno);
  return {};
}

Result<std::vector<std::string>> Directory::names() const {
  std::vector<std::string> all;
  TRY(holder, open_holder(false));
  if (!holder.dir) return all;
  DIR* dir = ::fdopendir(holder.dir.get());
  if (!dir) return fail_errno("list", path_, errno);
  holder.dir.release();
  while (const dirent* e = ::readdir(dir))
    if (e->d_name[0] != '.') all.emplace_back(e->d_name);
  ::closedir(dir);
  std::ranges::sort(all);
  return all;
}

std::optional<std::string_view> network_filesystem(unsigned long magic) noexcept {
  struct Kind {
    unsigned long magic;
    std::string_view name;
  };
  static constexpr Kind kinds[] = {
      {0x6969, "NFS"},          {0x517B, "SMB"},        {0xFF534D42, "CIFS"},
      {0xFE534D42, "SMB2"},     {0x65735546, "FUSE"},   {0x01021997, "9p"},
      {0x00C36400, "Ceph"},     {0x5346414F, "AFS"},    {0x6B414653, "AFS"},
      {0x73757245, "Coda"},     {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},
      {0x7461636F, "OCFS2"},    {0x01161970, "GFS2"},   {0x19830326, "BeeGFS"},
      {0x20030528, "OrangeFS"}, {0x786F4256, "vboxsf"}, {0xAAD7AAEA, "PanFS"},
      {0x564C, "NCP"},          {0xBACBACBC, "vmhgfs"},
  };
  const auto at = std::ranges::find_if(
      kinds, [magic](const Kind& k) { return k.magic == (magic & 0xFFFFFFFF); });
  return at == std::end(kinds) ? std::nullopt : std::optional{at->name};
}

namespace {

Result<void> make_file(int dir, const std::string& name, const Access& access,
                       std::string_view path, Made how) {
  const bool rename = how == Made::renamed;
  const std::string made = rename ? temporary_name() : name;
  Fd file(::openat(dir, made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                   access.file_mode()));
  if (!file && errno == EEXIST) return {};
  if (!file) return fail_errno("create", path, errno);
  auto given = give_rights(file.get(), access, access.file_mode(), path);
  if (given && (!rename || rename_new(dir, made, name))) return {};
  const int why = errno;
  // If the file was made under its own name, it stays, because others may already use it.
  if (rename) ::unlinkat(dir, made.c_str(), 0);
  if (!given || why == EEXIST) return given;
  if (cannot_rename_new(why)) return make_file(dir, name, access, path, Made::in_place);
  return fail_errno("create", path, why);
}

}  // namespace

Result<void> make_shared_file(int dir, const std::string& name, const Access& access,
                              std::string_view path) {
  return make_file(dir, name, access, path, Made::renamed);
}

}  // namespace dlock::file
