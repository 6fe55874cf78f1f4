// SPDX-License-Identifier: Apache-2.0
#include "store/fence_file.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>
#include "core/number.hpp"
#include "core/text.hpp"
#include "util/fd.hpp"
#include "util/file.hpp"
#include "util/wait.hpp"

namespace dlock {

constexpr Traits fence_traits{
    .family = "fence",
    .recipe = "file",
    .liveness = Liveness::process,
    .native = true,
    .weakness = "one machine, or a filesystem whose flock(2) works for all of its users"};

namespace {

using namespace std::chrono_literals;

constexpr std::size_t slot_size = 4096;
constexpr std::string_view magic = "dlock-fence1", any_version = "dlock-fence";

struct FenceRecord {
  std::uint64_t number = 0;
  FencingToken token = 0;
};

// FNV-1a. It detects a torn write only: a user who may write to the file may write anything.
std::uint64_t checksum(std::string_view text) noexcept {
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return sum;
}

std::string line_of(const FenceRecord& r) {
  const std::string text = fmt::format("{} {:020} {:020}", magic, r.number, r.token);
  return fmt::format("{} {:016x}", text, checksum(text));
}

std::optional<FenceRecord> parse_slot(std::string_view text) {
  const std::size_t length = line_of({}).size();
  if (text.size() < length) return std::nullopt;
  const std::string_view line = text.substr(0, length);
  FenceRecord r;
  const auto number = [&](std::size_t at) {
    return parse_number<std::uint64_t>(line.substr(at, 20)).value_or(0);
  };
  r.number = number(magic.size() + 1);
  r.token = number(magic.size() + 22);
  return line == line_of(r) ? std::optional{r} : std::nullopt;
}

class FenceFile final : public Backend {
 public:
  FenceFile(std::string path, FencingToken token, int interrupt_fd)
      : path_(std::move(path)), token_(token), interrupt_fd_(interrupt_fd) {}

  const Traits& traits() const noexcept override { return fence_traits; }
  std::string where() const override { return path_; }

  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Renewal> renew(const Lease& lease, Duration) override { return Renewal{Kept{lease}}; }
  Result<Renewal> detach(const Lease&, Duration, std::optional<RunEnd>) override {
    return fail(cannot("nothing outlives the process"));
  }
  // The job is dead. Unlock explicitly, because guards have duplicates of the descriptor.
  Result<Released> release(const Lease&, std::optional<RunEnd>) override {
    ::flock(file_.get(), LOCK_UN);
    return Released::yes;
  }
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override {
    return fail(cannot("cannot be forced"));
  }
  Result<Validity> check(const Key&, const GrantId&) override {
    return fail(cannot("cannot be checked"));
  }
  Result<std::optional<KeyView>> inspect(const Key&) override {
    return fail(cannot("cannot be inspected"));
  }
  Result<std::vector<std::string>> names() override { return fail(cannot("cannot be listed")); }

  Result<Progress> poll(const Request&, Duration slice);

 private:
  Result<void> open();
  Result<bool> in_place() const;
  Result<void> note();
  Result<void> write(std::string text, std::size_t slot);
  tl::unexpected<Error> refuse(Errc code, std::string_view why) const {
    return fail(code, "--state {}: {}", dlock::quoted(path_), why);
  }
  tl::unexpected<Error> trouble(std::string_view what, int error) const {
    const bool denied = error == EACCES || error == EPERM || error == ELOOP;
    return refuse(denied ? Errc::denied : Errc::cannot_create,
                  fmt::format("{}: {}", what, ::strerrordesc_np(error)));
  }

  const std::string path_;
  const FencingToken token_;
  const int interrupt_fd_;
  Fd file_;  // a lock on this file is the grant
};

class FenceWaiter final : public Waiter {
 public:
  FenceWaiter(FenceFile& fence, const Request& request) : fence_(fence), request_(request) {}
  Result<Progress> poll(Duration slice) override { return fence_.poll(request_, slice); }
  Result<void> cancel() override { return {}; }

 private:
  FenceFile& fence_;
  const Request request_;
};

Result<std::unique_ptr<Waiter>> FenceFile::enqueue(const Request& r) {
  return std::make_unique<FenceWaiter>(*this, r);
}

Result<void> FenceFile::open() {
  if (file_) return {};
  Fd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK,
                 0600));
  if (!file) return trouble("cannot be opened", errno);
  struct stat st {};
  if (::fstat(file.get(), &st)) return trouble("cannot be seen", errno);
  const std::string why = why_untrusted(st, {.forbidden = S_IWOTH, .own_or_root = false});
  if (!why.empty()) return refuse(Errc::denied, why);
  if (st.st_nlink > 1)  // the other hard link may belong to another resource
    return refuse(Errc::denied, fmt::format("has {} names (hard links)", st.st_nlink));
  file_ = std::move(file);
  return {};
}

// Returns whether the name still means our file: a lock on a replaced file excludes nobody.
Result<bool> FenceFile::in_place() const {
  struct stat mine {
  }, there{};
  if (::fstat(file_.get(), &mine)) return trouble("cannot be seen", errno);
  if (::lstat(path_.c_str(), &there))
    return errno == ENOENT ? Result<bool>(false) : trouble("cannot be seen", errno);
  return mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

Result<Progress> FenceFile::poll(const Request& request, Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  for (Duration nap = 1ms;; nap = std::min<Duration>(nap * 2, 20ms)) {
    const Deadline asked = Clock::now();
    TRY_VOID(open());
    const char* why = "another command works on it";
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
      TRY(here, in_place());
      if (here) break;
      file_.reset();
      why = "the file is replaced again and again";
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      return trouble("cannot be locked", errno);
    }
    if (!request.wait) return Progress{Busy{std::nullopt, why, asked}};
    if (Clock::now() >= end) return Progress{Waiting{0, std::nullopt, why, asked}};
    pollfd interrupt{interrupt_fd_, POLLIN, 0};
    if (wait_until({&interrupt, 1}, later(Clock::now(), nap)) > 0)
      return Progress{Waiting{0, std::nullopt, why, asked}};
  }
  TRY_VOID(note());
  Lease lease{.key = request.key, .owner = request.owner, .token = token_, .attached = true};
  return Progress{Granted{std::move(lease), file_.get()}};
}

// Writes the token. The caller holds the lock. When note() returns, the token is on the disk.
Result<void> FenceFile::note() {
  std::array<std::optional<FenceRecord>, 2> slots;
  bool empty = true;
  for (std::size_t i = 0; i < 2; ++i) {
    std::array<char, 128> text;
    const ssize_t n =
        ::pread(file_.get(), text.data(), text.size(), static_cast<off_t>(i * slot_size));
    if (n < 0) return trouble("cannot be read", errno);
    const std::string_view slot(text.data(), static_cast<std::size_t>(n));
    empty &= slot.find_first_not_of('\0') == slot.npos;
    slots[i] = parse_slot(slot);
    // This slot has a newer dlock's layout. The other slot may still have our layout, but it is
    // older than this slot.
    if (slot.starts_with(any_version) && !slot.starts_with(magic) &&
        slot.size() > any_version.size() && is_digit(slot[any_version.size()]))
      return refuse(Errc::config,
                    fmt::format("was written by a newer dlock ({}...): install that one on this "
                                "host, too",
                                printable(slot.substr(0, magic.size()))));
  }
  if (!slots[0] && !slots[1] && !empty)
    return refuse(Errc::config, "holds something else than fencing tokens, or is damaged");
  const std::size_t old = slots[1] && (!slots[0] || slots[1]->number > slots[0]->number) ? 1 : 0;
  const FenceRecord newest = slots[old].value_or(FenceRecord{});
  if (token_ < newest.token)
    return fail(Errc::stale,
                "token {} is older than {}, the newest that {} has seen; the command was not run",
                token_, newest.token, dlock::quoted(path_));
  // A record that was read may be in memory only, because its writer may have died before the
  // fsync.
  const std::uint64_t number = token_ == newest.token ? newest.number : newest.number + 1;
  if (number != newest.number) TRY_VOID(write(line_of({number, token_}), slots[old] ? 1 - old : 0));
  if (::fsync(file_.get())) return trouble("cannot be made durable", errno);
  if (number > 1) return {};
  // The directory entry of the file must be on the disk, too.
  const std::string parent = path_.find('/') == path_.npos
                                 ? "."
                                 : path_.substr(0, std::max<std::size_t>(path_.rfind('/'), 1));
  const Fd dir(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir || ::fsync(dir.get())) return trouble("its directory cannot be made durable", errno);
  return {};
}

Result<void> FenceFile::write(std::string text, std::size_t slot) {
  text.resize(slot_size - 1, ' ');
  text += '\n';
  if (::lseek(file_.get(), static_cast<off_t>(slot * slot_size), SEEK_SET) < 0)
    return trouble("cannot be written", errno);
  if (const int error = write_all(file_.get(), text)) return trouble("cannot be written", error);
  return {};
}

}  // namespace

std::unique_ptr<Backend> fence_file(std::string path, FencingToken token, int interrupt_fd) {
  return std::make_unique<FenceFile>(std::move(path), token, interrupt_fd);
}

}  // namespace dlock
