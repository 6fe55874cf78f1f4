// SPDX-License-Identifier: Apache-2.0
// Recipe lease: starts of jobs, revocations, and whether the directory is fit for locks.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include "file/lease/lease_backend.hpp"
#include "file/lease/note_file.hpp"
#include "file/surroundings.hpp"
#include "file/sys_error.hpp"

namespace dlock::file {

// ---- --once-per --------------------------------------------------------------------------------
Result<Starts> LeaseBackend::starts(const Key& wanted) {
  KeyStore& key = store(wanted);
  // without the lock, which a stopped process may have
  TRY(record, key.file().peek(StateFile::Depth::holders));
  Starts s{.now = wall_micros(), .last = {}};
  if (!record) return s;
  TRY(note, read_start(key.place()));
  if (note && note->until <= s.now) {  // not needed any more: removed, if nobody changes it
    const auto begun = key.begin(Make::nothing, Duration{});
    const Change change(key);
    if (begun && *begun == KeyStore::Begun::ready)
      if (const auto same = read_start(key.place()); same && *same && (*same)->until <= s.now)
        (void)forget_start(key.place());
  } else if (note) {
    s.last = *note;
  }
  return s;
}

Result<Noted> LeaseBackend::note_start(const Lease& lease, const StartChange& change) {
  KeyStore& key = store(lease.key);
  TRY(begun, begin(key, Make::nothing));
  if (begun == KeyStore::Begun::absent) return Noted::not_held;
  const Change locked(key);
  if (!key.state().holder(lease.owner, key.now())) return Noted::not_held;
  TRY(noted, read_start(key.place()));
  if (!change.fits(noted, wall_micros())) return Noted::other_start;
  TRY_VOID(change.is ? write_start(key.place(), *change.is) : forget_start(key.place()));
  return Noted::yes;
}

// ---- the last run ------------------------------------------------------------------------------
// Under the lock of the state. Of several permits the newest grant counts.
void LeaseBackend::note_run(KeyStore& key, const LockState::Holder& h, std::optional<RunEnd> end) {
  if (!end || adopted(h)) return;
  if (h.token < key.state().fence)  // else no newer grant can be recorded
    if (const auto last = read_last_run(key.place()); last && last->token >= h.token) return;
  const std::int64_t now = wall_micros();
  // `since` of an attached holder is its grant
  write_last_run(key.place(), {h.token, now, *end, now - std::max<Micros>(0, key.now() - h.since),
                               Identity::decode(h.meta)});
}

// ---- release --revoke --------------------------------------------------------------------------
Result<Released> LeaseBackend::revoke(const Key& wanted) {
  KeyStore& key = store(wanted);
  TRY(begun, begin(key, Make::nothing));
  if (begun == KeyStore::Begun::absent) return Released::was_not_held;
  const Change change(key);
  FencingToken newest = 0;
  for (const auto& h : key.state().holders) {
    if (h.deadline <= key.now() || adopted(h)) continue;
    newest = std::max(newest, h.token);
    // it looks at once; a lease notices when it is renewed
    if (h.deadline == never) key.alarm(h.ticket);
  }
  if (newest == 0) return Released::was_not_held;
  TRY_VOID(write_revoked(key.place(), newest));
  TRY(done, key.finish());
  if (!done) return revoke(wanted);  // the state file was deleted meanwhile
  return Released::yes;
}

Result<bool> LeaseBackend::is_revoked(KeyStore& key, FencingToken token) {
  TRY(meant, read_revoked(key.place()));
  return meant && token <= *meant;
}

// ---- inspect --doctor --------------------------------------------------------------------------
namespace {

using Level = Finding::Level;

// Who may make locks there, take those of others and break them.
Finding owner(int dir, const std::string& path, bool shared) {
  struct stat st {};
  if (::fstat(dir, &st) != 0)
    return {Level::unknown, "directory", sys_error("stat", "", errno).message, ""};
  return {Level::good, "directory",
          fmt::format("{}, mode {:04o}, of uid {}{}", path, st.st_mode & 07777U, st.st_uid,
                      shared ? fmt::format(", shared by the members of gid {}", st.st_gid) : ""),
          ""};
}

Finding filesystem(int dir) {
  struct statfs fs {};
  if (::fstatfs(dir, &fs))
    return {Level::unknown, "filesystem", sys_error("statfs", "", errno).message, ""};
  const auto magic = static_cast<unsigned long>(fs.f_type);
  if (const auto net = network_filesystem(magic))
    return {Level::warning, "filesystem", std::string(*net),
            "good for one host only; use a local directory"};
  constexpr unsigned long tmpfs = 0x01021994;
  if (magic == tmpfs)
    return {Level::warning, "filesystem", "tmpfs",
            "fencing tokens and --once-per records are gone after a restart of the machine"};
  return {Level::good, "filesystem", fmt::format("local (type 0x{:x})", magic), ""};
}

Finding space(int dir) {
  struct statvfs fs {};
  if (::fstatvfs(dir, &fs))
    return {Level::unknown, "free space", sys_error("statvfs", "", errno).message, ""};
  const auto bytes = std::uint64_t{fs.f_bavail} * fs.f_frsize;
  const std::string seen =
      fmt::format("{} MiB, {} inodes", bytes >> 20U, std::uint64_t{fs.f_favail});
  if (fs.f_flag & ST_RDONLY)
    return {Level::bad, "free space", "mounted read-only", "mount it for writing"};
  const bool inodes_counted = fs.f_files != 0;  // btrfs counts none
  if (bytes < (std::uint64_t{1} << 20U) || (inodes_counted && fs.f_favail < 16))
    return {Level::bad, "free space", seen, "make room: a lock needs a few KiB and some inodes"};
  if (bytes < (std::uint64_t{64} << 20U)) return {Level::warning, "free space", seen, "make room"};
  return {Level::good, "free space", seen, ""};
}

}  // namespace

Result<std::vector<Finding>> LeaseBackend::doctor() {
  const auto root = root_.open_root(false);
  if (!root)
    return std::vector{Finding{Level::bad, "directory", root.error().message,
                               "correct it, or name another with -b file:/dir"}};
  std::vector<Finding> found;
  if (!root->dir)
    found.push_back({Level::good, "directory", root_.path() + " does not exist yet", ""});
  judge_surroundings(root_.path(), found);
  if (!root->dir) return found;
  found.insert(found.begin(), owner(root->dir.get(), root_.path(), root->access.group));
  found.push_back(filesystem(root->dir.get()));
  found.push_back(space(root->dir.get()));
  const bool writable = ::faccessat(root->dir.get(), ".", W_OK | X_OK, AT_EACCESS) == 0;
  found.push_back(writable ? Finding{Level::good, "permission", "may make locks here", ""}
                           : Finding{Level::bad, "permission", "may not write here",
                                     "change the rights of the directory"});
  return found;
}

}  // namespace dlock::file
