// SPDX-License-Identifier: Apache-2.0
#include "file/lease/note_file.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include "core/number.hpp"
#include "core/owner.hpp"
#include "core/text.hpp"
#include "file/sys_error.hpp"
#include "util/file.hpp"

namespace dlock::file {
namespace {

constexpr std::size_t longest = 2048;
constexpr std::string_view last_run_magic = "dlock-last1 ";

std::string note_path(const LifelineDir& place, std::string_view name) {
  return fmt::format("{}/{}", place.path, name);
}

Result<std::optional<std::string>> read(const LifelineDir& place, const char* name) {
  const std::string path = note_path(place, name);
  const Fd file(::openat(place.dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) return fail_errno("open", path, errno);
  struct stat st {};
  if (::fstat(file.get(), &st)) return fail_errno("open", path, errno);
  if (!S_ISREG(st.st_mode)) return fail(Errc::denied, "{}: is not a regular file", printable(path));
  TRY_VOID(place.access.admits(st, path));
  std::string text(longest, '\0');
  const ssize_t n = ::pread(file.get(), text.data(), text.size(), 0);
  if (n < 0) return fail_errno("read", path, errno);
  text.resize(static_cast<std::size_t>(n));
  return text;
}

bool give_rights(int file, const Access& access) {
  return (!access.group || ::fchown(file, static_cast<uid_t>(-1), access.gid) == 0) &&
         ::fchmod(file, access.file_mode()) == 0;
}

// Removes what another member of the group has put in the place of `name`, even a directory.
void clear_away(const LifelineDir& place, const std::string& name) {
  if (::unlinkat(place.dir, name.c_str(), 0) == 0 || errno != EISDIR) return;
  const std::string aside = ".old." + Owner::random().hex();
  if (::unlinkat(place.dir, name.c_str(), AT_REMOVEDIR) != 0)
    ::renameat(place.dir, name.c_str(), place.dir, aside.c_str());
}

Result<void> write(const LifelineDir& place, const char* name, const std::string& text) {
  // The caller has the lock of its state file, but another process may have the lock of a state
  // file that was deleted. So each state file has its own temporary name for the note.
  const std::string path = note_path(place, name),
                    made = fmt::format("{}.new.{}", name, place.inode);
  const Access& access = place.access;
  const auto create = [&] {
    return ::openat(place.dir, made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                    access.file_mode());
  };
  Fd file(create());
  if (!file && errno == EEXIST) {  // a killed process left it
    clear_away(place, made);
    file = Fd(create());
  }
  if (!file) return fail_errno("create", path, errno);
  const int unwritten = give_rights(file.get(), access) ? write_all(file.get(), text) : errno;
  const auto put = [&] { return ::renameat(place.dir, made.c_str(), place.dir, name) == 0; };
  const auto put_anyway = [&] {
    if (put()) return true;
    if (errno != EISDIR) return false;
    clear_away(place, name);
    return put();
  };
  const bool written = unwritten == 0 && ::fsync(file.get()) == 0;
  // If the state was deleted, the existing note belongs to a holder of the next state, and must
  // stay.
  const bool deleted = written && !state_is_at(place);
  if (!written || deleted || !put_anyway() || ::fsync(place.dir)) {
    const int why = unwritten != 0 ? unwritten : errno;
    ::unlinkat(place.dir, made.c_str(), 0);
    if (deleted)
      return fail(Errc::unavailable, "{}: the state beside it was deleted meanwhile",
                  printable(path));
    return fail_errno("write", path, why);
  }
  return {};
}

// Parses "<magic> N... ". Returns whether the text has this form and is complete.
template <class... Number>
bool parse(std::string_view text, std::string_view magic, Number&... numbers) {
  if (!text.starts_with(magic)) return false;
  text.remove_prefix(magic.size());
  const auto one = [&](auto& number) {
    if (!text.starts_with(' ')) return false;
    text.remove_prefix(1);
    const auto found = leading_number<std::remove_reference_t<decltype(number)>>(text);
    number = found.value_or(0);
    return found.has_value();
  };
  return (one(numbers) && ...) && text == "\n";
}

tl::unexpected<Error> strange(const LifelineDir& place, const char* name) {
  return fail(Errc::protocol, "{}: is not what this version of dlock writes",
              printable(note_path(place, name)));
}

}  // namespace

Result<std::optional<RunStart>> read_beginning(const LifelineDir& place) {
  TRY(text, read(place, "started"));
  if (!text) return std::nullopt;
  RunStart note;
  if (!parse(*text, "dlock-started1", note.at, note.until)) return strange(place, "started");
  return note;
}

Result<void> write_start(const LifelineDir& place, const RunStart& note) {
  return write(place, "started", fmt::format("dlock-started1 {} {}\n", note.at, note.until));
}

Result<void> forget_start(const LifelineDir& place) {
  if (::unlinkat(place.dir, "started", 0) == 0 || errno == ENOENT) return {};
  return fail_errno("delete", note_path(place, "started"), errno);
}

Result<std::optional<std::uint64_t>> read_revoked(const LifelineDir& place) {
  TRY(text, read(place, "revoke"));
  if (!text) return std::nullopt;
  std::uint64_t token = 0;
  if (!parse(*text, "dlock-revoke1", token)) return strange(place, "revoke");
  return token;
}

Result<void> write_revoked(const LifelineDir& place, std::uint64_t newest_token) {
  return write(place, "revoke", fmt::format("dlock-revoke1 {}\n", newest_token));
}

std::optional<LastRun> read_last_run(const LifelineDir& place) {
  constexpr int tries = 3;  // because another process may write it at the same time
  for (int i = 0; i < tries; ++i) {
    const auto text = read(place, "last");
    if (!text || !*text || !(*text)->starts_with(last_run_magic)) return std::nullopt;
    std::string_view line = std::string_view{**text}.substr(last_run_magic.size());
    const std::size_t end = line.find('\n');
    if (end == line.npos) continue;
    line = line.substr(0, end);
    const std::size_t space = std::min(line.rfind(' '), line.size() - 1);
    const auto run = LastRun::parse(line.substr(0, space), ' ');
    if (run && line.substr(space + 1) == fmt::format_int(run->token).str()) return run;
  }
  return std::nullopt;
}

namespace {

// Opens the record of the last run. If we may not write to the file, a new file replaces it.
Fd open_last_run(const LifelineDir& place) {
  const int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Fd file(::openat(place.dir, "last", flags));
  struct stat st {};
  if (file && ::fstat(file.get(), &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
      place.access.admits(st, place.path))
    return file;
  ::unlinkat(place.dir, "last", 0);
  file = Fd(::openat(place.dir, "last", flags | O_CREAT | O_EXCL, place.access.file_mode()));
  if (file && !give_rights(file.get(), place.access)) file.reset();
  return file;
}

}  // namespace

// Writes the record without reason and command, which may be long. In the file, bytes after the
// first line belong to an older, longer record.
void write_last_run(const LifelineDir& place, const LastRun& run) {
  LastRun shorter = run;
  shorter.who.reason.clear();
  shorter.who.command.clear();
  const std::string line =
      fmt::format("{}{} {}\n", last_run_magic, shorter.text(' '), shorter.token);
  // If a write fails or is cut, the old record or an unreadable record is left.
  const Fd file = open_last_run(place);
  if (!file) return;
  [[maybe_unused]] const ssize_t n = ::pwrite(file.get(), line.data(), line.size(), 0);
}

void forget_revoked(const LifelineDir& place) noexcept { ::unlinkat(place.dir, "revoke", 0); }

}  // namespace dlock::file
