// SPDX-License-Identifier: Apache-2.0
#include "util/secret_file.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>
#include "core/text.hpp"
#include "util/file.hpp"

namespace dlock {
namespace {

constexpr std::size_t longest_secret = 4096;
constexpr int open_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

tl::unexpected<Error> refuse(const std::string& path, std::string_view why) {
  return fail(Errc::config, "{}: {}", quoted(path), why);
}

bool is_ours_or_roots(const struct stat& st) { return st.st_uid == 0 || st.st_uid == ::geteuid(); }

bool is_read_only(int fd) {
  struct statvfs fs {};
  return ::fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0;
}

// Returns whether the path names a descriptor of this process. Walk cannot follow such a path,
// because the target of the link need not be a path.
bool names_a_descriptor(std::string_view path) {
  return path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/") || path == "/dev/stdin";
}

// Follows a path link by link, and records the first place where others could have replaced it.
class Walk {
 public:
  explicit Walk(std::string path) : rest_(std::move(path)) {}

  // -1: errno says why.
  Fd open() {
    if (names_a_descriptor(rest_)) return Fd{::open(rest_.c_str(), open_flags)};
    begin();
    for (int links = 0; at_;) {
      const std::string name = next();
      if (name.empty()) {
        errno = EISDIR;
        return Fd{};
      }
      Fd entry{::openat(at_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)};
      struct stat st {};
      if (!entry || ::fstat(entry.get(), &st) != 0) return Fd{};
      if (S_ISLNK(st.st_mode)) {
        if (++links > 40) {
          errno = ELOOP;
          return Fd{};
        }
        linked_ = true;
        if (!is_ours_or_roots(st)) doubt(name, "is a link of another user");
        if (!follow(entry.get())) return Fd{};
      } else if (rest_.empty()) {
        return Fd{::openat(at_.get(), name.c_str(), open_flags | O_NOFOLLOW)};
      } else {
        at_ = std::move(entry);
        judge(name);
      }
    }
    return Fd{};
  }

  bool linked() const { return linked_; }
  // Says where others could have replaced the file, as in "'tmp', on the way, ..."; empty: nowhere.
  const std::string& doubt() const { return doubt_; }

 private:
  void begin() {
    at_ = Fd{::open(rest_.starts_with('/') ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    judge(rest_.starts_with('/') ? "/" : ".");
  }
  // Removes the next name and its slashes from the path: of "a//b" it returns "a" and leaves "b".
  std::string next() {
    rest_.erase(0, std::min(rest_.find_first_not_of('/'), rest_.size()));
    const std::string name = rest_.substr(0, rest_.find('/'));
    rest_.erase(0, name.size());
    if (rest_.find_first_not_of('/') == rest_.npos) rest_.clear();
    return name;
  }
  bool follow(int link) {
    std::array<char, PATH_MAX> text;
    const ssize_t n = ::readlinkat(link, "", text.data(), text.size());
    if (n < 0 || n == ssize_t{PATH_MAX}) return false;
    const std::string target(text.data(), static_cast<std::size_t>(n));
    rest_ = rest_.empty() ? target : target + '/' + rest_;
    if (target.starts_with('/')) begin();
    return true;
  }
  void judge(std::string_view name) {
    struct stat st {};
    if (!at_ || ::fstat(at_.get(), &st) != 0 || !S_ISDIR(st.st_mode)) return;
    if (is_read_only(at_.get())) return;
    if (!is_ours_or_roots(st)) doubt(name, "belongs neither to you nor to root");
    else if ((st.st_mode & Trust::others_write) && !(st.st_mode & S_ISVTX))
      doubt(name, "is a directory that others may write to");
  }
  void doubt(std::string_view name, std::string_view why) {
    if (doubt_.empty()) doubt_ = fmt::format("{}, on the way to it, {}", quoted(name), why);
  }

  std::string rest_, doubt_;
  Fd at_;
  bool linked_ = false;
};

// Returns why the open file is not trusted; empty: it is trusted.
std::string distrusted(const Walk& way, const struct stat& st, bool read_only) {
  if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
    return S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file";
  if (S_ISFIFO(st.st_mode) && st.st_uid != ::geteuid()) return "is a pipe of another user";
  const bool mounted = S_ISREG(st.st_mode) && st.st_uid == 0 && (::geteuid() != 0 || read_only);
  if (auto why = why_untrusted(
          st, {.forbidden = mounted ? Trust::others_write : Trust::others_any, .regular = false});
      !why.empty())
    return why;
  const bool may_be_replaced = way.linked() || (st.st_mode & Trust::others_any) != 0;
  return may_be_replaced ? way.doubt() : "";
}

struct Opened {
  Fd fd;
  struct stat st {};
};

Result<Opened> open_secret(const std::string& path) {
  Walk way(path);
  Opened o{way.open()};
  if (!o.fd || ::fstat(o.fd.get(), &o.st) != 0) return refuse(path, ::strerrordesc_np(errno));
  if (const auto why = distrusted(way, o.st, is_read_only(o.fd.get())); !why.empty())
    return refuse(path, why);
  return o;
}

}  // namespace

Result<Secret> read_secret(const std::string& path) {
  TRY(file, open_secret(path));
  Secret secret{.once = S_ISFIFO(file.st.st_mode)};
  auto text = read_text(
      file.fd.get(),
      {.longest = longest_secret, .first_line = true, .until = later(Clock::now(), fifo_patience)});
  if (!text && errno == EFBIG) return refuse(path, "is longer than a secret can be");
  if (!text) return refuse(path, ::strerrordesc_np(errno));
  secret.text = std::move(*text);
  if (secret.text.ends_with('\r')) secret.text.pop_back();
  if (secret.text.starts_with("\xef\xbb\xbf"))
    return refuse(path, "begins with a byte order mark; save it as UTF-8 without one");
  if (secret.text.empty()) return refuse(path, "its first line is empty");
  return secret;
}

Result<Secret> read_credential(const std::string& path) {
  auto secret = read_secret(path);
  if (!secret) return secret;
  const auto colon = secret->text.find(':');
  if (colon == 0 || colon == std::string::npos || colon + 1 == secret->text.size())
    return refuse(path, "its first line is not SCHEME:CREDENTIAL, as in digest:user:password");
  return secret;
}

Result<void> judge_secret(const std::string& path) {
  TRY(file, open_secret(path));
  return S_ISREG(file.st.st_mode) ? Result<void>{} : refuse(path, "is not a regular file");
}

std::string readers_of_secret(const std::string& path) {
  const auto file = open_secret(path);
  if (!file) return {};
  if (file->st.st_mode & S_IROTH) return "all users of this machine may read it";
  // If the file has an ACL, the group bits are the most that the ACL allows to its users and
  // groups.
  if (file->st.st_mode & S_IRGRP)
    if (::fgetxattr(file->fd.get(), "system.posix_acl_access", nullptr, 0) > 0)
      return "its ACL says who may read it (getfacl)";
  if (file->st.st_mode & S_IRGRP)
    return fmt::format("its owner and group {} may read it", file->st.st_gid);
  return "its owner alone may read it";
}

}  // namespace dlock
