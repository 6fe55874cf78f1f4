// SPDX-License-Identifier: Apache-2.0
#include "file/lease/state_file.hpp"
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include "core/text.hpp"
#include "file/sys_error.hpp"

namespace dlock::file {
namespace {

constexpr std::size_t first_read = 4096;
constexpr std::size_t reserved = 4096;  // reserve() reserves at least this for each slot

off_t offset(std::uint64_t seq) noexcept { return static_cast<off_t>(seq % 2) * slot_size; }

}  // namespace

ssize_t pread_all(int fd, char* to, std::size_t size, off_t at) noexcept {
  ssize_t n = 0;
  do n = ::pread(fd, to, size, at);
  while (n < 0 && errno == EINTR);
  return n;
}

ssize_t pwrite_all(int fd, std::string_view text, off_t at) noexcept {
  ssize_t n = 0;
  do n = ::pwrite(fd, text.data(), text.size(), at);
  while (n < 0 && errno == EINTR);
  return n;
}

Micros boottime_us() noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

const std::string& boot_id() {
  static const std::string* const id = [] {
    char text[36];
    const Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    const bool good =
        file && ::read(file.get(), text, sizeof text) == static_cast<ssize_t>(sizeof text);
    return new std::string(good ? std::string(text, sizeof text)
                                // never deleted, so no destructor runs at exit
                                : std::string("unknown"));
  }();
  return *id;
}

bool changed_in_this_boot(const timespec& changed, Micros wall_now, Micros boottime_now) noexcept {
  constexpr Micros leeway = 60'000'000;  // the wall clock may have been set a little since
  return Micros{changed.tv_sec} * 1'000'000 + changed.tv_nsec / 1000 >
         wall_now - boottime_now - leeway;
}

// ---- the file and its place --------------------------------------------------------------------
void StateFile::close() noexcept {
  unlock();
  file_.reset();
  dir_.reset();
}

Result<void> fits_under_limit(const std::string& path, std::uint64_t needed) {
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur >= needed) return {};
  return fail(Errc::cannot_create,
              "{}: needs a file size limit (ulimit -f) of at least {} KiB, and it is {} KiB",
              printable(path), needed / 1024, most.rlim_cur / 1024);
}

// False: the file does not exist.
Result<bool> StateFile::open(Make make) {
  for (int tries = 1;; ++tries) {
    bool vanished = false;  // the file, perhaps with its directory, was deleted between two steps
    auto opened = open_once(make, vanished);
    if (opened || !vanished || tries == 10) return opened;
  }
}

Result<bool> StateFile::open_once(Make make, bool& vanished) {
  close();
  // Every second change is written at offset 1 MiB. With a lower file size limit a grant could be
  // written, but its release could not.
  if (make == Make::all) TRY_VOID(fits_under_limit(path_, slot_size + reserved));
  TRY(opened, where_.open_key(name_, make == Make::all));
  if (!opened.dir) return false;
  const auto try_open = [&](int flags) {
    return Fd(::openat(opened.dir.get(), "state",
                       O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0600));
  };
  Fd file = try_open(make == Make::nothing || opened.access.group ? 0 : O_CREAT);
  if (!file && errno == ENOENT) {
    if (make == Make::nothing) return false;
    auto made = make_shared_file(opened.dir.get(), "state", opened.access, path_);
    if (!made) {
      struct stat dir {};
      const auto there =
          ::fstat(opened.dir.get(), &dir) == 0 ? where_.leads_to(name_, dir) : Result<bool>{true};
      vanished = there && !*there;
      return fail(made.error());
    }
    file = try_open(0);
  }
  if (!file && errno == EACCES && make != Make::nothing && !opened.access.group &&
      ::fchmodat(opened.dir.get(), "state", 0600, AT_SYMLINK_NOFOLLOW) == 0)
    file = try_open(0);  // it was made under a umask that denies the rights even to its owner
  if (!file && errno == ELOOP)
    return fail(Errc::denied, "{}: is a symbolic link, which dlock does not follow",
                printable(path_));
  if (!file && errno == EISDIR)
    return fail(Errc::denied, "{}: is not a regular file", printable(path_));
  vanished = !file && errno == ENOENT;
  if (!file) return fail_errno("open", path_, errno);
  struct stat st {};
  if (::fstat(file.get(), &st)) return fail_errno("open", path_, errno);
  if (!S_ISREG(st.st_mode))
    return fail(Errc::denied, "{}: is not a regular file", printable(path_));
  if (st.st_nlink > 1)
    return fail(Errc::denied, "{}: has {} names (hard links)", printable(path_), st.st_nlink);
  TRY_VOID(opened.access.admits(st, path_));
  if (::fstat(opened.dir.get(), &dir_stat_)) return fail_errno("open", dir_path_, errno);
  access_ = opened.access;
  dir_ = std::move(opened.dir);
  file_ = std::move(file);
  device_ = st.st_dev;
  inode_ = st.st_ino;
  ++epoch_;
  return true;
}

// Returns whether the path leads to the open file. A lock on a deleted or replaced file excludes
// nobody.
Result<bool> StateFile::in_place() const {
  auto dir = where_.leads_to(name_, dir_stat_);
  if (!dir || !*dir) return dir;
  struct stat there {};
  if (::fstatat(dir_.get(), "state", &there, AT_SYMLINK_NOFOLLOW) == 0)
    return there.st_ino == inode_ && there.st_dev == device_;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return fail_errno("open", path_, errno);
}

// ---- reading -----------------------------------------------------------------------------------
StateFile::Slot StateFile::read_slot(int slot) {
  std::string& page = page_[slot];
  page.resize(first_read);
  const ssize_t n = pread_all(file_.get(), page.data(), page.size(), slot * slot_size);
  const std::string_view text{page.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
  return {parse_header(text.substr(0, header_size)), text};
}

// Reads the body of a slot into body_. False: the slot is torn, or a process is writing it.
bool StateFile::read_body(int slot, const Slot& s) {
  const std::size_t length = s.header.length;
  if (length > static_cast<std::size_t>(slot_size) - header_size) return false;
  const std::string_view text = s.text.substr(std::min(s.text.size(), header_size));
  body_.assign(text.substr(0, length));
  if (const std::size_t have = body_.size(); have < length) {
    if (s.text.size() < first_read) return false;
    body_.resize(length);
    const auto rest = static_cast<ssize_t>(length - have);
    if (pread_all(file_.get(), &body_[have], length - have,
                  slot * slot_size + static_cast<off_t>(first_read)) != rest)
      return false;
  }
  return checksum(body_, s.header.seq) == s.header.checksum;
}

// Returns the newest valid slot. `torn`: there are data, but no slot is valid.
Result<StateFile::Loaded> StateFile::newest(bool& torn) {
  const Slot slots[2] = {read_slot(0), read_slot(1)};
  const auto kind = [&](int i) { return slots[i].header.kind; };
  torn = false;
  for (int i : {0, 1})
    if (kind(i) == Header::Kind::other_version)
      return fail(Errc::usage,
                  "{}: has layout {}, and this dlock knows layout 1 (a newer dlock "
                  "wrote it: install that one on this host, too)",
                  printable(path_), layout_of(slots[i].text));
  int order[2] = {0, 1};
  if (slots[1].header.seq > slots[0].header.seq) std::swap(order[0], order[1]);
  for (const int i : order) {
    if (kind(i) != Header::Kind::good || !read_body(i, slots[i])) continue;
    auto record = decoded();
    if (!record)
      return fail(Errc::protocol, "{}: has a line that this version of dlock does not know",
                  printable(path_));
    seq_ = slots[i].header.seq;
    return Loaded{std::move(*record), false};
  }
  body_.clear();
  tail_ = {};
  loaded_.clear();
  next_ticket_ = 1;
  seq_ = 0;
  // If the very first transition was cut off, it never happened.
  const bool first_cut = kind(0) == Header::Kind::empty &&
                         (kind(1) == Header::Kind::empty || slots[1].header.seq == 1);
  torn = !first_cut;
  return Loaded{{}, true};
}

// Returns the record in body_.
std::optional<KeyRecord> StateFile::decoded() {
  auto record = decode(body_);
  loaded_.clear();
  tail_ = record ? record->tail : Tail{};
  next_ticket_ = record ? record->state.next_ticket : 1;
  return record;
}

// Damaged content is an error, unless a crash of the machine has caused the damage. A slot that
// names this boot was written in this boot, even if the wall clock has been set since.
Result<void> StateFile::tolerate_damage() const {
  struct stat st {};
  if (::fstat(file_.get(), &st)) return fail_errno("read", path_, errno);
  const bool names_this_boot = std::ranges::any_of(
      page_, [](const std::string& page) { return page.find(boot_id()) != page.npos; });
  if (!names_this_boot && !changed_in_this_boot(st.st_ctim, wall_micros(), boottime_us()))
    return {};
  return fail(
      Errc::protocol,
      "{}: is damaged, so its holders are unknown; when no job runs under it, delete the file",
      printable(path_));
}

Result<StateFile::Loaded> StateFile::load() {
  bool torn = false;
  auto loaded = newest(torn);
  if (!loaded || !torn) return loaded;
  TRY_VOID(tolerate_damage());
  return loaded;
}

Result<StateFile::Loaded> StateFile::reload() {
  if (seq_ == 0) return Loaded{{}, true};
  auto record = decoded();
  if (!record) return fail(Errc::internal, "{}: was read once but not twice", printable(path_));
  return Loaded{std::move(*record), false};
}

Result<std::optional<KeyRecord>> StateFile::peek(Depth depth) {
  constexpr int tries = 50;
  for (int i = 0; i < tries; ++i) {
    if (file_) {
      TRY(here, in_place());
      if (!here) close();
    }
    if (!file_) {
      TRY(opened, open(Make::nothing));
      if (!opened) return std::nullopt;
    }
    bool torn = false;
    TRY(loaded, newest(torn));
    if (loaded.fresh && !torn) return std::nullopt;
    if (!torn && (depth == Depth::holders || read_tail(loaded.record, tail_size, true)))
      return std::move(loaded.record);
    // Both slots, or lines of the tail, change during one read only if others write twice
    // meanwhile. So read again.
    const timespec nap{0, 100'000};
    ::nanosleep(&nap, nullptr);
  }
  TRY(loaded, load());  // load() usually reports the damage
  if (loaded.fresh) return std::nullopt;
  if (depth == Depth::waiters) TRY_VOID(load_tail(loaded.record));
  return std::move(loaded.record);
}

Header StateFile::newest_header() const noexcept {
  Header newest;
  for (const int slot : {0, 1}) {
    char text[header_size];
    const ssize_t n = pread_all(file_.get(), text, sizeof text, slot * slot_size);
    const Header h = parse_header({text, static_cast<std::size_t>(std::max<ssize_t>(n, 0))});
    if (h.kind == Header::Kind::good && h.seq >= newest.seq) newest = h;
  }
  return newest;
}

bool StateFile::needs_check(Micros now) const noexcept {
  const Header newest = newest_header();
  return !still_linked() || newest.kind != Header::Kind::good || newest.overdue <= now;
}

std::uint64_t StateFile::newest_change() const noexcept { return newest_header().seq; }

// ---- writing -----------------------------------------------------------------------------------
// Reserves space, so that the next transitions (above all a release) and the turns of all waiters
// need no more space.
Result<void> StateFile::reserve(const KeyRecord& record, bool tail) const {
  const std::size_t most = std::min<std::size_t>(most_in_slot(record, limits_, tail),
                                                 static_cast<std::size_t>(slot_size));
  if (seq_ != 0 && most <= reserved) return {};  // the first transition reserved the space
  const auto size = static_cast<off_t>(std::max(most, reserved));
  for (const std::uint64_t slot : {0u, 1u})
    if (::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, offset(slot), size) &&
        (errno == ENOSPC || errno == EDQUOT))
      return fail_errno("write", path_, errno);
  return {};  // the filesystem cannot reserve space, which is no reason to refuse
}

Result<void> StateFile::commit(const KeyRecord& record) {
  const LockState& state = record.state;
  const bool joined = state.next_ticket != next_ticket_;
  if (!record.tail.empty() && joined && loaded_.empty() != record.joins.has_value())
    return fail(Errc::internal, "{}: a waiter came before those of its tail were known",
                printable(path_));
  const Written next = planned(record, joined);
  encode(record, next.in_slot, next.tail, seq_ + 1, buffer_);
  const std::string_view body = std::string_view{buffer_}.substr(header_size);
  if (seq_ != 0 && body == body_) return {};
  if (buffer_.size() > static_cast<std::size_t>(slot_size) || next.tail.end > tail_size)
    return fail(Errc::unavailable, "{}: too many waiters for this key", printable(path_));
  // the space for a waiter that joins behind the tail is reserved already
  if (seq_ == 0 || (joined && !record.joins)) TRY_VOID(reserve(record, !next.tail.empty()));
  TRY_VOID(write_tail(next));
  const ssize_t n = pwrite_all(file_.get(), buffer_, offset(seq_ + 1));
  if (n < 0) return fail_errno("write", path_, errno);
  // the slot that was written is torn, but it is not in force
  if (static_cast<std::size_t>(n) != buffer_.size()) return fail_errno("write", path_, ENOSPC);
  ++seq_;
  body_.assign(body);
  tail_ = next.tail;
  next_ticket_ = state.next_ticket;
  loaded_.clear();
  return {};
}

bool StateFile::still_linked() const noexcept { return state_is_at(place()); }

}  // namespace dlock::file
