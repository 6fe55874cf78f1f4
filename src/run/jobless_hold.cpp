// SPDX-License-Identifier: Apache-2.0
#include "run/jobless_hold.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <cerrno>
#include <cstring>
#include <utility>
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "run/run.hpp"
#include "run/supervisor.hpp"
#include "util/process_title.hpp"
#include "util/terminal.hpp"
#include "util/wait.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

// In the background (`acquire --hold &`) another process group gets what is typed. As long as that
// group leaves the input unread, poll(2) would return at once, again and again. So this class
// pauses for a second. Nothing reports that we have come to the foreground; but from then on
// poll(2) reports what is typed for us.
bool StdinEnd::has_come() {
  if (paused_) {
    pause_.drain();
    paused_ = false;
    return false;
  }
  ssize_t n = -1;
  errno = EIO;
  if (!in_the_background(STDIN_FILENO)) {
    char sink[4096];
    n = ::read(STDIN_FILENO, sink, sizeof sink);
  }
  // If the terminal is still ours, EIO means that we are in the background. If not, it means that
  // the terminal hung up, which ends the input.
  if (n < 0 && errno == EIO && ::tcgetpgrp(STDIN_FILENO) >= 0) {
    paused_ = true;
    pause_.arm(later(Clock::now(), 1s));
    return false;
  }
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

std::array<pollfd, 4> JoblessHold::descriptors(const std::optional<Owner>& owner) const {
  return {{owner && stdin_end ? stdin_end->watched() : pollfd{-1, 0, 0},
           {watch, POLLIN, 0},
           {owner ? -1 : caller_link, POLLIN, 0},
           {owner ? listener : -1, POLLIN, 0}}};
}

std::optional<Outcome> JoblessHold::end_requested(const std::optional<Owner>& owner) {
  auto p = descriptors(owner);
  ::poll(p.data(), p.size(), 0);
  if (p[0].revents != 0 && stdin_end->has_come()) return Outcome{};
  if (p[1].revents != 0) return Outcome{false, status_ok, Outcome::How::caller_gone};
  if (p[2].revents != 0) return Outcome{false, status_ok, Outcome::How::error};
  if (p[3].revents == 0) return std::nullopt;
  KeeperRequest q = next_request(listener, *owner);
  if (q.what == "release") {
    release_request = std::move(q);  // released() answers the request after the store's reply
    return Outcome{};
  }
  if (!q.what.empty()) answer(q, KeeperAnswer::done);
  return std::nullopt;
}

void JoblessHold::released(const event::ReleaseDone& done) const {
  if (!release_request) return;
  answer(*release_request, done.unknown     ? KeeperAnswer::unknown
                           : done.confirmed ? KeeperAnswer::done
                                            : KeeperAnswer::not_held);
}

// Runs a Supervisor without a guard. The exit status is 125 if the grant could not be passed on.
static Outcome supervise(const Plan& plan, const Entry& entry, Output& output, JoblessHold& how) {
  return supervise(plan, entry, *new PreexistingProcesses(-1), output, Channel(Fd()), -1,
                   *new InnerHolds, &how);
}

Outcome acquire(const Plan& given, const GrantSink& sink) {
  // On the heap, as in run(), because the Keeper's thread may outlive this call.
  Plan& plan = *new Plan(given);
  plan.holds_until_asked = plan.request.attached;
  const Entry& entry = *new Entry;
  JoblessHold& how = *new JoblessHold{
      .pass_on = [&sink](const auto& leases) { return sink.print(sink.text(leases)); },
      .stdin_end = plan.holds_until_asked ? std::make_optional<StdinEnd>() : std::nullopt};
  return supervise(plan, entry, *new Output(plan), how);
}

// `acquire --keep` has two processes. The process that the user started waits for the grant, prints
// it and ends. The keeper process, forked before any thread or library exists, acquires and keeps
// the lock.
//
//   started by the user                        keeper (own session; stdin, stdout: /dev/null)
//        | <------------- text ------------------ granted
//        | prints it --------- '1' ------------->  goes on alone: stderr is /dev/null too
//        | '0', or dead ----------------------->  releases the lock
//        | <--------- Outcome -------------------- busy, error
namespace {

constexpr std::size_t longest = 128 * 1024;  // the greatest length of a grant's text

// The keeper's last message. Its first byte is NUL; any other message is the text of a grant.
struct KeeperResult {
  char mark = '\0';
  Outcome outcome;
};

void become_null(int fd) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null) ::dup2(null.get(), fd);
}

// Sends the grant to the foreground process, and waits until that process has printed it, the
// watched process ends or --max-hold is over. Meanwhile the Keeper's thread renews the lock,
// because the foreground process may be stopped for long without being dead.
bool pass_on(const KeepOptions& how, int link, Output& output, const std::string& text) {
  if (::send(link, text.data(), text.size(), MSG_NOSIGNAL) < 0) return false;
  pollfd p[] = {{link, POLLIN, 0}, {how.watch, POLLIN, 0}};
  wait_until(p, how.max_hold > 0us ? later(Clock::now(), how.max_hold) : no_deadline);
  char answer = '0';
  if (p[0].revents == 0 || ::recv(link, &answer, 1, MSG_DONTWAIT) != 1 || answer != '1')
    return false;
  output.flush(100ms);
  become_null(STDERR_FILENO);
  if (::chdir("/") != 0) return true;  // then a mount stays busy, but nothing else fails
  return true;
}

Outcome keep_lock(const Plan& plan, const Entry& entry, const GrantSink& sink,
                  const KeepOptions& how, int link) {
  Output& output = *new Output(plan);
  const auto listener = how.socket.empty() ? Result<Fd>(Fd()) : listen_as_keeper(how.socket);
  if (!listener) return output.give_up(listener.error());
  JoblessHold& until = *new JoblessHold{
      .pass_on = [&](const auto& leases) { return pass_on(how, link, output, sink.text(leases)); },
      .watch = how.watch,
      .listener = listener->get(),
      .caller_link = link};
  return supervise(plan, entry, output, until);
}

// The keeper process.
[[noreturn]] void background(const Plan& plan, const Entry& entry, const GrantSink& sink,
                             const KeepOptions& how, int link) {
  ::setsid();
  ::prctl(PR_SET_NAME, "lock-keeper");
  set_process_title("lock-keeper: " + printable(plan.request.key.text()));
  entry.close_inherited(STDERR_FILENO);
  const KeeperResult last{.outcome = keep_lock(plan, entry, sink, how, link)};
  ::send(link, &last, sizeof last, MSG_NOSIGNAL);
  ::_exit(0);
}

// The process that the user started.
Outcome foreground(const Plan& plan, const Entry& entry, const GrantSink& sink, const Fd& link) {
  IncomingSignals signals = entry.open_signals();
  std::string text(longest, '\0');
  // the outcome if the keeper ends without a result
  Outcome outcome{false, status_bug, Outcome::How::error};
  int ending = 0;
  bool failed = false;
  Deadline until = no_deadline;
  for (;;) {
    pollfd p[] = {{signals.fd(), POLLIN, 0}, {link.get(), POLLIN, 0}};
    const int ready = wait_until(p, until);
    if (ready == 0) break;
    while (const auto s = signals.next()) {
      const int n = static_cast<int>(s->ssi_signo);
      if (is_stop_signal(n)) default_action(n);
      else if (!ignored_by_default(n) && ending == 0) {
        ending = n;
        ::shutdown(link.get(), SHUT_WR);  // the keeper leaves the queue and sends its result
        until = later(Clock::now(), time_to_leave);
      }
    }
    if (ready < 0 || p[1].revents == 0) continue;
    const ssize_t n = ::recv(link.get(), text.data(), text.size(), 0);
    if (n <= 0 && ending == 0 && !failed)
      return (new Output(plan))
          ->give_up({Errc::unavailable,
                     "the keeper was killed; if it had the lock already, that lasts no longer "
                     "than --ttl"});
    if (n <= 0) break;
    if (text[0] == '\0' && static_cast<std::size_t>(n) == sizeof(KeeperResult)) {
      KeeperResult last;
      std::memcpy(&last, text.data(), sizeof last);
      outcome = last.outcome;
      break;
    }
    if (ending != 0) continue;  // the keeper sees the closed link and releases the lock
    const bool ok = sink.print(std::string_view(text).substr(0, static_cast<std::size_t>(n)));
    ::send(link.get(), ok ? "1" : "0", 1, MSG_NOSIGNAL);
    if (ok) return {};
    failed = true;  // wait until the keeper has released the lock
    until = later(Clock::now(), plan.timing.op_timeout);
  }
  if (ending != 0) return {true, ending, Outcome::How::signal};
  if (failed) return {false, status_failed_holding, Outcome::How::failed};
  return outcome;
}

}  // namespace

Outcome keep(const Plan& plan, const GrantSink& sink, const KeepOptions& how) {
  const Entry& entry = *new Entry;
  int pair[2];
  const auto cannot_begin = [&](int error) {
    return (new Output(plan))
        ->give_up({Errc::unavailable,
                   fmt::format("no process for the keeper: {}", ::strerrordesc_np(error))});
  };
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return cannot_begin(errno);
  Fd ours(pair[0]), theirs(pair[1]);
  const pid_t keeper = ::fork();
  if (keeper < 0) return cannot_begin(errno);
  if (keeper == 0) {
    ours.reset();
    Plan& of_keeper = *new Plan(plan);
    of_keeper.holds_until_asked = true;
    of_keeper.max_hold = how.max_hold;
    identify(of_keeper.request.identity);
    of_keeper.request.identity.kept_by = Identity::KeptBy::keeper;
    background(of_keeper, entry, sink, how, theirs.get());
  }
  theirs.reset();
  return foreground(plan, entry, sink, ours);
}

}  // namespace dlock::run
