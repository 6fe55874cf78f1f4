// SPDX-License-Identifier: Apache-2.0
#include "report/metrics.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include "core/clock.hpp"
#include "core/text.hpp"
#include "report/lines.hpp"
#include "util/fd.hpp"
#include "util/file.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

struct Figures {
  double wait_seconds = 0;  // until the grant, or until the wait ended
  double held_seconds = 0;  // 0: never held
  bool granted = false;
};

// Returns the new text of the file: `before` with the changes. `begins`: a job has just started.
std::string page_of(std::string_view before, const Key& key, bool begins, const Figures& f,
                    const Outcome& o) {
  const std::string labels = fmt::format("{{key=\"{}\"}}", escaped(key.text()));
  std::string page;
  const auto last = [&](std::string_view name) -> std::optional<double> {
    const std::string line = fmt::format("\n{}{} ", name, labels);
    const auto at = before.find(line);
    if (at == before.npos) return std::nullopt;
    return std::strtod(std::string(before.substr(at + line.size(), 40)).c_str(), nullptr);
  };
  const auto add = [&](std::string_view name, std::string_view help, std::string_view type,
                       double value) {
    page += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0}{3} {4}\n", name, help, type, labels,
                        value);
  };
  const auto counter = [&](std::string_view name, std::string_view help, bool one_more) {
    add(name, help, "counter", last(name).value_or(0) + (one_more ? 1 : 0));
  };
  const auto gauge = [&](std::string_view name, std::string_view help, bool changed, double value) {
    const auto shown = changed ? value : last(name);
    if (shown) add(name, help, "gauge", *shown);
  };
  const bool skipped = !begins && o.how == Outcome::How::busy;
  const bool ended = !begins && !skipped;
  const double now = static_cast<double>(wall_micros() / 1000) / 1e3;
  counter("dlock_runs_total", "Commands that were run.",
          f.granted && o.how != Outcome::How::not_started);
  counter("dlock_skipped_total", "Runs skipped because the lock was busy, or by --once-per.",
          skipped);
  counter("dlock_lost_total", "Times that the lock was lost while the command ran.",
          o.how == Outcome::How::lost);
  gauge("dlock_running", "1: a command runs, or its dlock was killed.", begins || f.granted,
        begins ? 1 : 0);
  gauge("dlock_last_start_timestamp_seconds", "When a command was last started.", begins, now);
  gauge("dlock_wait_seconds", "Time that the last run waited for the lock.", !begins,
        f.wait_seconds);
  gauge("dlock_held_seconds", "Time that the last run held the lock.", f.granted, f.held_seconds);
  gauge("dlock_exit_status", "Status of the last run that was not skipped; 128+n for signal n.",
        ended, o.by_signal ? 128 + o.value : o.value);
  gauge("dlock_last_end_timestamp_seconds", "When the last run that was not skipped ended.", ended,
        now);
  const char* const success = "dlock_last_success_timestamp_seconds";
  gauge(success, "When a run last ended with status 0, 0: never.", true,
        f.granted && !o.by_signal && o.value == 0 ? now : last(success).value_or(0));
  return page;
}

constexpr Duration draft_patience = 250ms;

// Opens the new file, empty and locked. The file is its own lock: a process that has locked the
// file may write it if the name still means that file. The rename removes the name. A file that a
// killed process left is reused. On failure errno says why.
//
// Why a process must look at the name again after it has locked the file:
// 1. A opens F.tmp and locks it. 2. B opens F.tmp and waits for the lock. 3. A renames the file to
//    F and ends. 4. C creates a new F.tmp. 5. B gets the lock, but on the file that is now F. B
//    sees that F.tmp means another file, and begins again.
Fd open_draft(const std::string& name) {
  const Deadline end = later(Clock::now(), draft_patience);
  for (timespec nap{0, 1'000'000};; ::nanosleep(&nap, nullptr)) {
    constexpr int safe = O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW;
    Fd fd(::open(name.c_str(), O_RDWR | O_CREAT | safe, 0644));  // for a collector of another user
    const bool foreign = !fd && errno == EACCES;
    if (foreign) fd.reset(::open(name.c_str(), O_RDONLY | safe));
    struct stat mine {
    }, there{};
    if (!fd || ::fstat(fd.get(), &mine) != 0) return Fd();
    if (!S_ISREG(mine.st_mode) || mine.st_nlink > 1) {
      errno = EEXIST;  // another hard link may belong to another program
      return Fd();
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      const bool ours = ::lstat(name.c_str(), &there) == 0 && there.st_ino == mine.st_ino &&
                        there.st_dev == mine.st_dev;
      if (ours && !foreign) return ::ftruncate(fd.get(), 0) == 0 ? std::move(fd) : Fd();
      // a dead process of another user left the file
      if (ours && ::unlink(name.c_str()) != 0) return Fd();
    } else if (errno != EWOULDBLOCK) {
      return Fd();
    }
    if (Clock::now() >= end) {
      errno = ETIMEDOUT;
      return Fd();
    }
  }
}

Result<void> write(const std::string& path, const Key& key, bool begins, const Figures& figures,
                   const Outcome& outcome) {
  const auto failed = [&](const char* why) {
    return fail(Errc::cannot_create, "--metrics-file {}: not updated: {}", dlock::quoted(path),
                why);
  };
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    return failed("it is not a regular file");
  // The name does not match *.prom, so the collector does not read the file.
  const std::string name = path + ".tmp";
  const Fd draft = open_draft(name);
  if (!draft && errno == ETIMEDOUT) return failed("others keep its .tmp locked");
  if (!draft) return failed(::strerrordesc_np(errno));
  const Fd before(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW));
  // Without the old file the counters would restart.
  if (!before && errno != ENOENT) return failed(::strerrordesc_np(errno));
  const Deadline until = later(Clock::now(), draft_patience);
  const auto old = before ? read_text(before.get(), {.longest = 1U << 20U, .until = until}) : "";
  int error = old ? 0 : errno;
  if (old) error = write_all(draft.get(), page_of("\n" + *old, key, begins, figures, outcome));
  if (!error && ::rename(name.c_str(), path.c_str()) != 0) error = errno;
  if (!error) return {};
  ::unlink(name.c_str());
  return failed(::strerrordesc_np(error));
}

}  // namespace

void Metrics::job_runs() {
  if (plan_.output.metrics_file.empty()) return;
  std::promise<void> done;
  auto written = done.get_future();
  try {
    std::thread([this, done = std::move(done)]() mutable {
      (void)write(plan_.output.metrics_file, plan_.request.key, true, {}, {});
      done.set_value();
    }).detach();
    written_ = std::move(written);
  } catch (const std::system_error&) {
    return;  // no thread is available, so only write_end() writes the file
  }
}

Result<void> Metrics::write_end(const Outcome& outcome) {
  const std::string& file = plan_.output.metrics_file;
  if (file.empty()) return {};
  if (written_.valid() && written_.wait_for(2 * draft_patience) != std::future_status::ready)
    return fail(Errc::cannot_create, "--metrics-file {}: not updated: the disk does not answer",
                dlock::quoted(file));
  const auto seconds = [](Deadline from, Deadline to) {
    return std::chrono::duration<double>(to - from).count();
  };
  Figures f{.wait_seconds = seconds(began_at_, std::min(granted_at_, ended_at_)),
            .granted = granted_at_ != no_deadline};
  if (f.granted) f.held_seconds = seconds(granted_at_, ended_at_);
  return write(file, plan_.request.key, false, f, outcome);
}

}  // namespace dlock::run
