// SPDX-License-Identifier: Apache-2.0
// `acquire --keep`: two processes. The one that the user started waits for the grant, prints it and
// ends; the other, forked before any thread or library exists, acquires the lock and keeps it.
//
//   started by the user                        keeper (its own session; stdin and stdout are
//   /dev/null from the start)
//        | <------------- text ------------------ granted
//        | prints it --------- '1' ------------->  goes on alone: stderr is /dev/null too
//        | '0', or dead ----------------------->  releases the lock
//        | <--------- Outcome -------------------- busy, error
#include "run/keep.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include "core/exit_status.hpp"
#include "core/text.hpp"
#include "run/process_id.hpp"
#include "run/signal_kinds.hpp"
#include "run/taker.hpp"
#include "run/terminal.hpp"
#include "util/process_title.hpp"
#include "util/wait.hpp"

namespace dlock::run {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t longest = 128 * 1024;  // of a grant's text

struct Ended {  // the keeper's last message; any other content is text of a grant
  char mark = '\0';
  bool by_signal = false;
  int value = 0;
};

void become_null(int fd) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null) ::dup2(null.get(), fd);
}

// In the keeper.
class Background {
 public:
  Background(const Plan& plan, const Entry& entry, const GrantSink& sink, const KeepFor& how,
             Fd link)
      : plan_(plan), entry_(entry), sink_(sink), how_(how), link_(std::move(link)) {}

  [[noreturn]] void run() {
    ::setsid();
    ::prctl(PR_SET_NAME, "lock-keeper");
    show_as("lock-keeper: " + printable(plan_.request.key.text()));
    entry_.let_go_of_inherited(STDERR_FILENO);
    Events& events = *new Events(plan_);
    Outcome outcome;
    Fd listener;
    if (const auto opened = events.open(); !opened) {
      outcome = refuse(events, opened.error());
    } else if (auto socket = how_.socket.empty() ? Result<Fd>(Fd()) : listen_as_keeper(how_.socket);
               !socket) {
      outcome = refuse(events, socket.error());
    } else {
      listener = std::move(*socket);
      const std::function<bool(const std::vector<Lease>&)> tell = [&](const auto& leases) {
        return told(events, sink_.text(leases));
      };
      const Taker::Staying stays{.at_all = true,
                                 .until_stdin_ends = false,
                                 .watch = how_.watch,
                                 .max_hold = how_.max_hold,
                                 .listener = listener.get(),
                                 .asker = link_.get()};
      outcome = (new Taker(plan_, entry_, events, tell, stays))->run();
    }
    events.flush(2s);
    const Ended last{'\0', outcome.by_signal, outcome.value};
    if (link_) ::send(link_.get(), &last, sizeof last, MSG_NOSIGNAL);
    ::_exit(0);
  }

 private:
  static Outcome refuse(Events& events, const Error& e) {
    events.error(e.message);
    return {false, exit_status(e.code), "error"};
  }

  // Waits until the watched process ends, at most --max-hold, while the keeper's thread renews: a
  // stopped terminal is not a dead one.
  bool told(Events& events, const std::string& text) {
    if (::send(link_.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return false;
    pollfd p[] = {{link_.get(), POLLIN, 0}, {how_.watch, POLLIN, 0}};
    const Deadline end = how_.max_hold > 0us ? later(Clock::now(), how_.max_hold) : no_deadline;
    wait_until(p, end);
    char said = '0';
    if (p[0].revents == 0 || ::recv(link_.get(), &said, 1, MSG_DONTWAIT) != 1 || said != '1')
      return false;
    events.flush(100ms);
    become_null(STDERR_FILENO);
    if (::chdir("/") != 0) return true;  // it would only keep a mount busy
    return true;
  }

  const Plan& plan_;
  const Entry& entry_;
  const GrantSink& sink_;
  const KeepFor& how_;
  Fd link_;
};

Outcome unavailable(const Plan& plan, const std::string& why) {
  Events& events = *new Events(plan);
  events.error(why);
  events.flush(2s);
  return {false, status_unavailable, "error"};
}

// In the process that the user started.
Outcome foreground(const Plan& plan, const Entry& entry, const GrantSink& sink, const Fd& link) {
  IncomingSignals signals = entry.open_signals();
  std::string text(longest, '\0');
  Outcome outcome{false, status_bug, "error"};  // of a keeper that ends without a word of it
  int ending = 0;
  bool failed = false;
  Deadline until = no_deadline;
  for (;;) {
    pollfd p[] = {{signals.fd(), POLLIN, 0}, {link.get(), POLLIN, 0}};
    const int ready = wait_until(p, until);
    if (ready == 0) break;
    while (const auto s = signals.next()) {
      const int n = static_cast<int>(s->ssi_signo);
      if (stops(n)) take_default(n);
      else if (!ignored_by_default(n) && ending == 0) {
        ending = n;
        ::shutdown(link.get(), SHUT_WR);  // the keeper leaves the queue, and reports it
        until = later(Clock::now(), time_to_leave);
      }
    }
    if (ready < 0 || p[1].revents == 0) continue;
    const ssize_t n = ::recv(link.get(), text.data(), text.size(), 0);
    if (n <= 0 && ending == 0 && !failed)
      return unavailable(plan,
                         "the keeper was killed; if it had the lock already, that lasts no longer "
                         "than --ttl");
    if (n <= 0) break;
    if (text[0] == '\0' && static_cast<std::size_t>(n) == sizeof(Ended)) {
      Ended last;
      std::memcpy(&last, text.data(), sizeof last);
      outcome = {last.by_signal, last.value, "error"};
      break;
    }
    if (ending != 0) continue;  // too late: the keeper finds the link closed, and releases the lock
    const bool ok = sink.print(std::string_view(text).substr(0, static_cast<std::size_t>(n)));
    ::send(link.get(), ok ? "1" : "0", 1, MSG_NOSIGNAL);
    if (ok) return {false, status_ok, "command"};
    failed = true;  // until the lock is released
    until = later(Clock::now(), plan.timing.op_timeout);
  }
  if (ending != 0) return {true, ending, "signal"};
  if (failed) return {false, status_failed_holding, "failed"};
  return outcome;
}

}  // namespace

Outcome keep(const Plan& plan, const GrantSink& sink, const KeepFor& how) {
  const Entry& entry = *new Entry;
  int pair[2];
  const auto cannot_begin = [&](int error) {
    return unavailable(plan,
                       fmt::format("no process for the keeper: {}", ::strerrordesc_np(error)));
  };
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return cannot_begin(errno);
  Fd ours(pair[0]), theirs(pair[1]);
  const pid_t keeper = ::fork();
  if (keeper < 0) return cannot_begin(errno);
  if (keeper == 0) {
    ours.reset();
    Plan& of_keeper = *new Plan(plan);
    identify(of_keeper.request.identity);
    of_keeper.request.identity.kept_by = Identity::KeptBy::keeper;
    (new Background(of_keeper, entry, sink, how, std::move(theirs)))->run();
  }
  theirs.reset();
  return foreground(plan, entry, sink, ours);
}

}  // namespace dlock::run
