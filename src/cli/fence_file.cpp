// SPDX-License-Identifier: Apache-2.0
#include "cli/fence_file.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>
#include "core/key.hpp"
#include "util/fd.hpp"

namespace dlock::cli {

constexpr Traits fence_traits{.family = "fence",
                              .recipe = "file",
                              .liveness = Liveness::process,
                              .fifo = false,
                              .shared = false,
                              .permits = false,
                              .detached = false,
                              .lock_delay = false,
                              .wakes = false,
                              .native = true,
                              .weakness = "one machine, or a filesystem whose flock(2) reaches all who use it"};

namespace {

using namespace std::chrono_literals;

constexpr std::size_t slot_size = 4096;
constexpr std::string_view magic = "dlock-fence1";

struct Record {
  std::uint64_t number = 0;
  FencingToken token = 0;
};

// FNV-1a: finds a torn write; whoever may write to the file may write anything.
std::uint64_t checksum(std::string_view text) noexcept {
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return sum;
}

std::string line_of(const Record& r) {
  const std::string text = fmt::format("{} {:020} {:020}", magic, r.number, r.token);
  return fmt::format("{} {:016x}", text, checksum(text));
}

std::optional<Record> parse_slot(std::string_view text) {
  const std::size_t length = line_of({}).size();
  if (text.size() < length) return std::nullopt;
  const std::string_view line = text.substr(0, length);
  Record r;
  const auto number = [&](std::size_t at, std::uint64_t& to) {
    const auto [stop, bad] = std::from_chars(line.data() + at, line.data() + at + 20, to);
    return bad == std::errc{} && stop == line.data() + at + 20;
  };
  if (!number(magic.size() + 1, r.number) || !number(magic.size() + 22, r.token) || line != line_of(r)) return std::nullopt;
  return r;
}

class FenceFile final : public Backend {
 public:
  FenceFile(std::string path, FencingToken token, const Settings& settings)
      : path_(std::move(path)), token_(token), interrupt_fd_(settings.interrupt_fd) {}

  const Traits& traits() const noexcept override { return fence_traits; }
  std::string where() const override { return path_; }

  Result<std::unique_ptr<Waiter>> enqueue(const Request&) override;
  Result<Progress> poll(Duration slice);
  Result<Renewal> renew(const Lease& lease, Duration) override { return Renewal{Kept{lease}}; }
  Result<Renewal> detach(const Lease&, Duration) override { return fail(cannot("nothing outlives the process")); }
  // The descriptor is closed with the process, after its guard's: the lock may not end before.
  Result<Released> release(const Lease&) override { return Released::yes; }
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override { return fail(cannot("cannot be forced")); }
  Result<Validity> check(const Key&, FencingToken) override { return fail(cannot("cannot be checked")); }
  Result<Validity> check(const Key&, const Owner&) override { return fail(cannot("cannot be checked")); }
  Result<std::optional<KeyView>> inspect(const Key&) override { return fail(cannot("cannot be inspected")); }
  Result<std::vector<KeyView>> list() override { return fail(cannot("cannot be listed")); }

 private:
  tl::unexpected<Error> trouble(std::string_view what, int error) const {
    const bool denied = error == EACCES || error == EPERM || error == ELOOP;
    return fail(denied ? Errc::denied : Errc::cannot_create,
                fmt::format("--state {}: {}: {}", quoted(path_), what, ::strerrordesc_np(error)));
  }
  Result<void> open();
  Result<bool> in_place() const;
  Result<void> write(const Record&, std::size_t slot);
  Result<void> note();

  const std::string path_;
  const FencingToken token_;
  const int interrupt_fd_;
  Request request_{.key = Key::parse("-").value(), .owner = {}, .identity = {}};
  Fd file_;
};

// What `run` asks through; the Backend itself stays with the keeper.
class Through final : public Waiter {
 public:
  explicit Through(FenceFile& file) : file_(file) {}
  Result<Progress> poll(Duration slice) override { return file_.poll(slice); }
  Result<void> cancel() override { return {}; }

 private:
  FenceFile& file_;
};

Result<std::unique_ptr<Waiter>> FenceFile::enqueue(const Request& r) {
  request_ = r;
  return std::make_unique<Through>(*this);
}

Result<void> FenceFile::open() {
  if (file_) return {};
  Fd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600));
  if (!file) return trouble("cannot be opened", errno);
  struct stat st {};
  if (::fstat(file.get(), &st)) return trouble("cannot be seen", errno);
  if (!S_ISREG(st.st_mode)) return fail(Errc::denied, fmt::format("--state {}: is not a regular file", quoted(path_)));
  if (st.st_mode & S_IWOTH)
    return fail(Errc::denied,
                fmt::format("--state {}: everybody may write to it, so it protects nothing; use chmod o-w", quoted(path_)));
  file_ = std::move(file);
  return {};
}

// A lock on a file that was replaced excludes nobody.
Result<bool> FenceFile::in_place() const {
  struct stat mine {
  }, there{};
  if (::fstat(file_.get(), &mine)) return trouble("cannot be seen", errno);
  if (::lstat(path_.c_str(), &there)) return errno == ENOENT ? Result<bool>(false) : trouble("cannot be seen", errno);
  return mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

Result<Progress> FenceFile::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  for (Duration nap = 1ms;; nap = std::min<Duration>(nap * 2, 20ms)) {
    if (auto opened = open(); !opened) return fail(opened.error());
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
      const auto here = in_place();
      if (!here) return fail(here.error());
      if (*here) break;
      file_.reset();
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return trouble("cannot be locked", errno);
    constexpr const char* why = "another command works on it";
    if (!request_.wait) return Progress{Busy{std::nullopt, why}};
    if (Clock::now() >= end) return Progress{Waiting{0, std::nullopt, why}};
    pollfd interrupt{interrupt_fd_, POLLIN, 0};
    if (::poll(&interrupt, 1, static_cast<int>(nap / 1ms)) > 0) return Progress{Waiting{0, std::nullopt, why}};
  }
  if (auto noted = note(); !noted) return fail(noted.error());
  Lease lease{.key = request_.key, .owner = request_.owner, .token = token_, .attached = true};
  return Progress{Granted{std::move(lease), file_.get()}};
}

Result<void> FenceFile::write(const Record& r, std::size_t slot) {
  std::string text = line_of(r);
  text.resize(slot_size - 1, ' ');
  text += '\n';
  const off_t at = static_cast<off_t>(slot * slot_size);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::pwrite(file_.get(), text.data() + done, text.size() - done, at + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return trouble("cannot be written", n < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(n);
  }
  return {};
}

// Under the lock.
Result<void> FenceFile::note() {
  std::array<std::optional<Record>, 2> slots;
  bool empty = true;
  for (std::size_t i = 0; i < 2; ++i) {
    std::array<char, 128> text;
    const ssize_t n = ::pread(file_.get(), text.data(), text.size(), static_cast<off_t>(i * slot_size));
    if (n < 0) return trouble("cannot be read", errno);
    const std::string_view seen(text.data(), static_cast<std::size_t>(n));
    empty &= seen.find_first_not_of('\0') == seen.npos;
    slots[i] = parse_slot(seen);
  }
  if (!slots[0] && !slots[1] && !empty)
    return fail(Errc::config, fmt::format("--state {}: holds something else than fencing tokens, or is damaged", quoted(path_)));
  const std::size_t old = slots[1] && (!slots[0] || slots[1]->number > slots[0]->number) ? 1 : 0;
  const Record newest = slots[old].value_or(Record{});
  if (token_ < newest.token)
    return fail(Errc::stale, fmt::format("token {} is older than {}, the newest that {} has seen; the command was not run",
                                         token_, newest.token, quoted(path_)));
  if (token_ != newest.token)
    if (auto written = write({newest.number + 1, token_}, slots[old] ? 1 - old : 0); !written) return written;
  // Also what was there already: whoever wrote it may have been killed before it came to this.
  if (::fsync(file_.get())) return trouble("cannot be made durable", errno);
  if (newest.number <= 1) {  // its name as well
    const std::string parent = path_.find('/') == path_.npos ? "." : path_.substr(0, std::max<std::size_t>(path_.rfind('/'), 1));
    const Fd dir(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir || ::fsync(dir.get())) return trouble("its directory cannot be made durable", errno);
  }
  return {};
}

}  // namespace

std::unique_ptr<Backend> fence_file(std::string path, FencingToken token, const Settings& settings) {
  return std::make_unique<FenceFile>(std::move(path), token, settings);
}

}  // namespace dlock::cli
