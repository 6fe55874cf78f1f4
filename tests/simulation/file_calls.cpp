// SPDX-License-Identifier: Apache-2.0
// System calls on files, as the linker's --wrap leads them here. Those of a simulated process on
// the simulated disk are told by their descriptor or by their path; all others are real.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <map>
#include <memory>
#include "simulation/system_call.hpp"

using dlock::simulation::answer;
using dlock::simulation::caller;
using dlock::simulation::FileSystem;
using dlock::simulation::Node;
using dlock::simulation::Open;
using dlock::simulation::OpenPtr;
using dlock::simulation::Process;

namespace {

Process* about(int fd) noexcept { return fd >= Process::first_fd ? caller() : nullptr; }
Process* about(const char* path) noexcept {
  return std::string_view{path}.starts_with(FileSystem::root) ? caller() : nullptr;
}

// What `call` does with the open file; a dead process has no effect any more.
template <class Call>
auto with(Process& p, int fd, Call call) -> decltype(call(std::declval<Open&>())) {
  if (!p.enters_kernel()) return answer<decltype(call(std::declval<Open&>()))>(-EIO);
  const OpenPtr open = p.opened(fd);
  return answer(open ? call(*open) : -EBADF);
}

int open_below(Process& p, int directory, const char* path, int flags, mode_t mode) {
  if (!p.enters_kernel()) return answer(-EIO);
  const OpenPtr from = directory == AT_FDCWD ? nullptr : p.opened(directory);
  if (directory != AT_FDCWD && !from) return answer(-EBADF);
  OpenPtr made;
  const int failed = p.files().open(from.get(), path, flags, mode, made);
  return failed != 0 ? answer(failed) : p.add_open(std::move(made));
}

// A write is not one instant for those who read meanwhile. If its process is killed in between, the
// first blocks are written.
ssize_t write_in_parts(Process& p, Open& to, std::string_view bytes, off_t at) {
  constexpr std::size_t block = 512;
  std::size_t done = 0;
  for (; bytes.size() - done > block; done += block) {
    const ssize_t n =
        p.files().write(*to.node, bytes.substr(done, block), at + static_cast<off_t>(done));
    if (n < static_cast<ssize_t>(block)) return n < 0 && done > 0 ? static_cast<ssize_t>(done) : n;
    p.others_run();
    if (!p.alive()) return -EIO;
  }
  const ssize_t n = p.files().write(*to.node, bytes.substr(done), at + static_cast<off_t>(done));
  if (n < 0) return done > 0 ? static_cast<ssize_t>(done) : n;
  p.files().written(*to.node);
  return static_cast<ssize_t>(done) + n;
}

// An open directory stream.
struct Listing {
  int fd;
  std::vector<std::string> names;
  std::size_t next = 0;
  dirent entry{};
};
std::map<DIR*, std::unique_ptr<Listing>>& listings() {
  static thread_local std::map<DIR*, std::unique_ptr<Listing>> all;
  return all;
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" {

int __real_open(const char*, int, mode_t);
int __wrap_open(const char* path, int flags, mode_t mode) {
  Process* const p = about(path);
  return p ? open_below(*p, AT_FDCWD, path, flags, mode) : __real_open(path, flags, mode);
}

int __real_openat(int, const char*, int, mode_t);
int __wrap_openat(int directory, const char* path, int flags, mode_t mode) {
  Process* const p = about(directory);
  return p ? open_below(*p, directory, path, flags, mode)
           : __real_openat(directory, path, flags, mode);
}

// openat2(2): not there, as on an old kernel.
long __real_syscall(long, long, long, long, long, long, long);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  return about(static_cast<int>(a)) ? answer(-ENOSYS) : __real_syscall(number, a, b, c, d, e, f);
}

int __real_mkdirat(int, const char*, mode_t);
int __wrap_mkdirat(int directory, const char* name, mode_t mode) {
  Process* const p = about(directory);
  if (!p) return __real_mkdirat(directory, name, mode);
  return with(*p, directory,
              [&](Open& in) { return p->files().make(in, name, Node::Kind::directory, mode); });
}

int __real_mkfifoat(int, const char*, mode_t);
int __wrap_mkfifoat(int directory, const char* name, mode_t mode) {
  Process* const p = about(directory);
  if (!p) return __real_mkfifoat(directory, name, mode);
  return with(*p, directory,
              [&](Open& in) { return p->files().make(in, name, Node::Kind::fifo, mode); });
}

int __real_unlinkat(int, const char*, int);
int __wrap_unlinkat(int directory, const char* name, int flags) {
  Process* const p = about(directory);
  if (!p) return __real_unlinkat(directory, name, flags);
  return with(*p, directory, [&](Open& in) { return p->files().remove(in, name); });
}

int __real_lstat(const char*, struct stat*);
int __wrap_lstat(const char* path, struct stat* to) {
  Process* const p = about(path);
  if (!p) return __real_lstat(path, to);
  return p->enters_kernel() ? answer(p->files().status(nullptr, path, *to)) : answer(-EIO);
}

int __real_fstat(int, struct stat*);
int __wrap_fstat(int fd, struct stat* to) {
  Process* const p = about(fd);
  if (!p) return __real_fstat(fd, to);
  return with(*p, fd, [&](Open& of) { return FileSystem::status(*of.node, *to), 0; });
}

int __real_fstatat(int, const char*, struct stat*, int);
int __wrap_fstatat(int directory, const char* name, struct stat* to, int flags) {
  Process* const p = about(directory);
  if (!p) return __real_fstatat(directory, name, to, flags);
  return with(*p, directory, [&](Open& in) { return p->files().status(&in, name, *to); });
}

int __real_fstatfs(int, struct statfs*);
int __wrap_fstatfs(int fd, struct statfs* to) {
  if (!about(fd)) return __real_fstatfs(fd, to);
  *to = {};
  to->f_type = 0xEF53;  // ext4
  return 0;
}

int __real_flock(int, int);
int __wrap_flock(int fd, int operation) {
  Process* const p = about(fd);
  if (!p) return __real_flock(fd, operation);
  return with(*p, fd, [&](Open& of) { return p->files().flock(of, operation); });
}

int __real_fallocate(int, int, off_t, off_t);
int __wrap_fallocate(int fd, int mode, off_t at, off_t size) {
  Process* const p = about(fd);
  if (!p) return __real_fallocate(fd, mode, at, size);
  return with(*p, fd, [&](Open& of) { return p->files().reserve(*of.node, at, size); });
}

ssize_t __real_pread(int, void*, std::size_t, off_t);
ssize_t __wrap_pread(int fd, void* to, std::size_t size, off_t at) {
  Process* const p = about(fd);
  if (!p) return __real_pread(fd, to, size, at);
  return with(*p, fd, [&](Open& of) {
    return p->files().read(*of.node, static_cast<char*>(to), size, at);
  });
}

ssize_t __real_pwrite(int, const void*, std::size_t, off_t);
ssize_t __wrap_pwrite(int fd, const void* from, std::size_t size, off_t at) {
  Process* const p = about(fd);
  if (!p) return __real_pwrite(fd, from, size, at);
  return with(*p, fd, [&](Open& of) {
    return write_in_parts(*p, of, {static_cast<const char*>(from), size}, at);
  });
}

ssize_t __real_read(int, void*, std::size_t);
ssize_t __wrap_read(int fd, void* to, std::size_t size) {
  Process* const p = about(fd);
  if (!p) return __real_read(fd, to, size);
  return with(*p, fd, [&](Open& of) { return p->files().drain(*of.node, size); });
}

ssize_t __real_write(int, const void*, std::size_t);
ssize_t __wrap_write(int fd, const void* from, std::size_t size) {
  Process* const p = about(fd);
  if (!p) return __real_write(fd, from, size);
  return with(*p, fd, [&](Open& of) { return p->files().wake(*of.node, size); });
}

int __real_nanosleep(const timespec*, timespec*);
int __wrap_nanosleep(const timespec* span, timespec* left) {
  Process* const p = caller();
  if (!p) return __real_nanosleep(span, left);
  p->poll(nullptr, 0, span->tv_sec * dlock::simulation::second + span->tv_nsec);
  return 0;
}

DIR* __real_fdopendir(int);
DIR* __wrap_fdopendir(int fd) {
  Process* const p = about(fd);
  if (!p) return __real_fdopendir(fd);
  const OpenPtr directory = p->opened(fd);
  if (!directory) return errno = EBADF, nullptr;
  auto listing = std::make_unique<Listing>(Listing{fd, {}});
  for (const auto& [name, node] : directory->node->entries) listing->names.push_back(name);
  auto* const stream = reinterpret_cast<DIR*>(listing.get());
  listings().emplace(stream, std::move(listing));
  return stream;
}

dirent* __real_readdir(DIR*);
dirent* __wrap_readdir(DIR* stream) {
  const auto found = listings().find(stream);
  if (found == listings().end()) return __real_readdir(stream);
  Listing& listing = *found->second;
  if (listing.next == listing.names.size()) return nullptr;
  std::strncpy(listing.entry.d_name, listing.names[listing.next++].c_str(),
               sizeof listing.entry.d_name - 1);
  return &listing.entry;
}

int __real_closedir(DIR*);
int __wrap_closedir(DIR* stream) {
  const auto found = listings().find(stream);
  if (found == listings().end()) return __real_closedir(stream);
  if (Process* const p = caller()) p->close(found->second->fd);
  listings().erase(found);
  return 0;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
