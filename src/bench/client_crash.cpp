// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdlib>
#include "bench/client.hpp"
#include "util/wait.hpp"

namespace dlock::bench {
namespace {

using namespace std::chrono_literals;

Request request(const Plan& plan, const Target& target) {
  Request r{key_of(target, Scenario::crash, 0), Owner::random()};
  r.ttl = plan.crash_ttl;
  r.identity = Identity::mine("bench");
  return r;
}

// The forked process: it writes "+TOKEN DEADLINE" or an error, renews the lease until it is killed,
// and writes the same kind of line for each renewal.
[[noreturn]] void hold(const Plan& plan, const Target& target, int to) {
  const auto report = [to](const std::string& line) {
    (void)!::write(to, line.data(), line.size());
  };
  const auto acquire = [&]() -> Result<void> {
    TRY(backend, target.open(plan.op_timeout, -1));
    TRY(waiter, backend->enqueue(request(plan, target)));
    TRY(answer, waiter->poll(plan.crash_ttl * 3));
    const auto* granted = std::get_if<Granted>(&answer);
    if (!granted) return fail(Errc::unavailable, "crash: the holder was not granted the lock");
    for (Lease lease = granted->lease;;) {
      report(fmt::format("+{} {}\n", lease.token, lease.deadline.time_since_epoch().count()));
      wait_until({}, later(Clock::now(), plan.crash_ttl / 3));
      const auto renewed = backend->renew(lease, plan.crash_ttl);
      if (const auto* kept = renewed ? std::get_if<Kept>(&*renewed) : nullptr) lease = kept->lease;
    }
  };
  if (const auto done = acquire(); !done) report(done.error().message + "\n");
  ::_exit(1);
}

// A child process that is killed when this object is destroyed or this process ends.
class Holder {
 public:
  // Blocks Ctrl-C in the child: the parent handles the signal, and kills the child.
  Holder(const Plan& plan, const Target& target) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return;
    from_.reset(ends[0]);
    Fd to(ends[1]);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    hold(plan, target, to.get());
  }
  ~Holder() { kill(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // Returns the child's next line; empty: no line came in time, or a signal came.
  std::string line(Deadline until, int signal_fd) {
    for (;;) {
      if (const std::size_t end = said_.find('\n'); end != said_.npos) {
        std::string line = said_.substr(0, end);
        said_.erase(0, end + 1);
        return line;
      }
      pollfd fds[] = {{from_.get(), POLLIN, 0}, {signal_fd, POLLIN, 0}};
      if (wait_until(fds, until) <= 0 || fds[1].revents) return {};
      char part[512];
      const ssize_t n = ::read(from_.get(), part, sizeof part);
      if (n <= 0) return {};
      said_.append(part, static_cast<std::size_t>(n));
    }
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
    pid_ = -1;
  }

 private:
  Fd from_;
  std::string said_;
  pid_t pid_ = -1;
};

// Returns the end of the lease from a line of a Holder.
Deadline deadline_in(const std::string& line) {
  const std::size_t at = line.find(' ');
  return Deadline{Clock::duration{at == line.npos ? 0 : std::strtoll(&line[at], nullptr, 10)}};
}

}  // namespace

Result<std::optional<Nanoseconds>> crash_once(const Plan& plan, const Target& target,
                                              Signals& signals, Figures& figures) {
  const std::optional<Nanoseconds> interrupted;
  Holder holder(plan, target);
  std::string said = holder.line(later(Clock::now(), plan.crash_ttl * 3 + 90s), signals.fd());
  if (signals.received()) return interrupted;
  if (!said.starts_with('+'))
    return fail(Errc::unavailable, said.empty() ? "crash: the holder said nothing in time" : said);
  const FencingToken held = std::strtoull(said.c_str() + 1, nullptr, 10);

  TRY(backend, target.open(plan.op_timeout, signals.fd()));
  TRY(waiter, backend->enqueue(request(plan, target)));
  auto answer = waiter->poll(0us);
  if (!answer) return fail(answer.error());
  const Counters before = backend->counters();
  const Deadline answered = Clock::now();
  holder.kill();
  const Deadline killed = Clock::now(), too_late = later(killed, plan.crash_ttl * 3 + 90s);
  if (std::holds_alternative<Granted>(*answer)) {
    Deadline held_until{};
    for (; !said.empty(); said = holder.line(Clock::now(), -1)) held_until = deadline_in(said);
    if (held_until < answered) {  // an expired lease does not exclude others
      ++figures.late;
    } else {
      ++figures.overlaps;
      figures.first_violation = fmt::format("crash: granted while token {} was held", held);
    }
  }
  while (!std::holds_alternative<Granted>(*answer)) {
    if (signals.received() || Clock::now() >= too_late) {
      (void)waiter->cancel();
      if (signals.received()) return interrupted;
      return fail(Errc::unavailable, "crash: no grant within {}s", (plan.crash_ttl * 3 + 90s) / 1s);
    }
    answer = waiter->poll(1s);
    if (!answer && !retryable(answer.error().code)) return fail(answer.error());
    if (!answer) answer = Progress{Waiting{}};
  }
  const Nanoseconds took = Clock::now() - killed;
  const Lease& lease = std::get<Granted>(*answer).lease;
  if (lease.token <= held) {
    ++figures.inversions;
    figures.first_violation =
        fmt::format("crash: token {} was granted after token {}", lease.token, held);
  }
  const Counters after = backend->counters();
  figures.requests += after.requests - before.requests;
  figures.wakeups += after.wakeups - before.wakeups;
  ++figures.grants;
  TRY_VOID(backend->release(lease));
  return std::optional{took};
}

}  // namespace dlock::bench
