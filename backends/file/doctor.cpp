// SPDX-License-Identifier: Apache-2.0
#include "file/doctor.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include "common/examination.hpp"
#include "core/text.hpp"
#include "file/sys_error.hpp"
#include "util/fd.hpp"

namespace dlock::file {
namespace {

using Level = Finding::Level;

struct Free {
  void operator()(char* text) const noexcept { std::free(text); }
};

// Reports the first directory that all users may write to: `path` itself or the nearest directory
// above it. With `of_all_users`, `path` itself counts only if it is /tmp or /var/tmp, because the
// recipe is made for a directory that all users may write to.
void way(const std::string& path, bool of_all_users, Findings& found) {
  const std::unique_ptr<char, Free> real(::realpath(path.c_str(), nullptr));
  std::string at = real ? std::string(real.get()) : path;
  const auto open_to_all = [&] {
    struct stat st {};
    return ::stat(at.c_str(), &st) == 0 && (st.st_mode & S_IWOTH) != 0;
  };
  if (of_all_users) {
    found.add("users", "all may write to the directory", Level::warning,
              "each may hold a lock for ever, as with flock(1), and only the clock makes tokens "
              "rise from user to user: better use a directory of a group");
    if (at != "/tmp" && at != "/var/tmp") at.resize(std::max<std::size_t>(at.rfind('/'), 1));
  }
  while (at.size() > 1 && !open_to_all()) at.resize(std::max<std::size_t>(at.rfind('/'), 1));
  const bool open = open_to_all();
  found.add(
      "way to it",
      open ? fmt::format("all users may write to {}", at) : "only its owner and root may write",
      good_if(!open, Level::bad),
      "use a directory outside: what is cleaned by age, as /tmp is, loses locks, and a lock "
      "that is deleted is a lock that is open");
}

std::string first_bytes(const char* path) {
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 256> text{};
  const ssize_t n = fd ? ::read(fd.get(), text.data(), text.size()) : 0;
  return {text.data(), static_cast<std::size_t>(n > 0 ? n : 0)};
}

// "boottime       100         0" means: this process is in a time namespace, with a clock 100 s
// ahead.
bool shifted(std::string_view offsets) {
  const auto at = offsets.find("boottime");
  return at != offsets.npos && offsets.find_first_of("123456789", at) != offsets.npos;
}

void clock(Findings& found) {
  std::string source =
      first_bytes("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  while (source.ends_with('\n')) source.pop_back();
  if (shifted(first_bytes("/proc/self/timens_offsets")))
    found.add("clock", "a time namespace of its own", Level::warning,
              "leases end at other moments here than for the processes outside: use one namespace");
  else if (source.empty()) found.add("clock", "the source is not known", Level::unknown);
  else
    found.add("clock", printable(source), good_if(!source.ends_with("jiffies"), Level::warning),
              "it counts ticks: leases end some ms early or late");
}

// Reports who may make locks in the directory, take the locks of others, and break locks.
void owner(int dir, const std::string& path, bool shared, Findings& found) {
  struct stat st {};
  if (::fstat(dir, &st) != 0)
    return found.add("directory", sys_error("stat", "", errno).message, Level::unknown);
  found.add("directory",
            fmt::format("{}, mode {:04o}, of uid {}{}", path, st.st_mode & 07777U, st.st_uid,
                        shared ? fmt::format(", shared by the members of gid {}", st.st_gid) : ""),
            Level::good);
}

void filesystem(int dir, bool flock, Findings& found) {
  struct statfs fs {};
  if (::fstatfs(dir, &fs))
    return found.add("filesystem", sys_error("statfs", "", errno).message, Level::unknown);
  const auto magic = static_cast<unsigned long>(fs.f_type);
  if (const auto net = network_filesystem(magic))
    found.add("filesystem", std::string(*net), Level::warning,
              "good for one host only; use a local directory");
  else if (magic == TMPFS_MAGIC)
    found.add("filesystem", "tmpfs", Level::warning,
              fmt::format("fencing tokens{} are gone after a restart of the machine",
                          flock ? "" : " and --once-per records"));
  else found.add("filesystem", fmt::format("local (type 0x{:x})", magic), Level::good);
}

void space(int dir, Findings& found) {
  struct statvfs fs {};
  if (::fstatvfs(dir, &fs))
    return found.add("free space", sys_error("statvfs", "", errno).message, Level::unknown);
  if (fs.f_flag & ST_RDONLY)
    return found.add("free space", "mounted read-only", Level::bad, "mount it for writing");
  const auto mebibytes = std::uint64_t{fs.f_bavail} * fs.f_frsize >> 20U;
  const bool inodes_counted = fs.f_files != 0;  // btrfs does not count inodes
  const bool full = mebibytes < 1 || (inodes_counted && fs.f_favail < 16);
  found.add("free space", fmt::format("{} MiB, {} inodes", mebibytes, std::uint64_t{fs.f_favail}),
            full ? Level::bad : good_if(mebibytes >= 64, Level::warning),
            full ? "make room: a lock needs a few KiB and some inodes" : "make room");
}

// Makes the files of a first lock, and removes them: no other check finds a quota, a full disk or a
// filesystem without FIFOs. The name begins with a dot, so no key has it. The inner directory is
// not removed.
Result<void> try_a_lock(const Directory& root) {
  const std::string name = ".doctor-" + Owner::random().hex();
  const auto make = [&]() -> Result<void> {
    TRY(key, root.open_key(name, true));
    const Fd file(::openat(key.dir.get(), "state", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
                           key.access.file_mode()));
    const std::array<char, 4096> block{};
    if (!file || ::write(file.get(), block.data(), block.size()) < 0 || ::fsync(file.get()) != 0)
      return fail_errno("write a file in", root.path(), errno);
    if (::mkfifoat(key.dir.get(), "1", key.access.file_mode()) != 0)
      return fail_errno("make a FIFO in", root.path(), errno);
    return {};
  };
  const auto made = make();
  const auto removed = root.remove_key(name);
  return made ? removed : made;
}

// Returns whether this user may make the directory, which means that the nearest existing directory
// above it is writable.
bool may_be_made(std::string path) {
  do path.resize(std::max<std::size_t>(path.rfind('/'), 1));
  while (path.size() > 1 && ::access(path.c_str(), F_OK) != 0);
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

}  // namespace

std::vector<Finding> examine(const Directory& where, bool flock, bool of_all_users) {
  Findings found;
  const auto root = where.open_root(false);
  if (!root) {
    found.add("directory", root.error().message, Level::bad,
              "correct it, or name another with -b file:/dir");
    return found.extract();
  }
  const int dir = root->dir.get();
  if (root->dir) owner(dir, where.path(), root->access.group, found);
  else
    found.add("directory", where.path() + " does not exist yet",
              good_if(!flock && may_be_made(where.path()), Level::bad),
              flock ? "recipe flock does not make it" : "this user may not make it");
  way(where.path(), of_all_users, found);
  if (!flock) clock(found);  // no lock of recipe flock ends by the clock
  if (!root->dir) return found.extract();
  filesystem(dir, flock, found);
  space(dir, found);
  const auto tried = try_a_lock(where);
  found.add("permission", tried ? "may make locks here" : printable(tried.error().message),
            good_if(tried.has_value(), Level::bad),
            of_all_users ? "correct it: locks have no record, or cannot be taken"
                         : "nothing can be locked here");
  return found.extract();
}

}  // namespace dlock::file
