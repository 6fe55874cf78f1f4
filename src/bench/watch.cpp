// SPDX-License-Identifier: Apache-2.0
#include "bench/watch.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "util/wait.hpp"

namespace dlock::bench {

using namespace std::chrono_literals;

Signals::Signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int s : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    struct sigaction now {};
    ::sigaction(s, nullptr, &now);
    if (now.sa_handler != SIG_IGN) ::sigaddset(&set, s);  // nohup(1) sets SIG_IGN
  }
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Signals::~Signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int Signals::received() {
  signalfd_siginfo s{};
  if (received_ == 0 && ::read(fd_.get(), &s, sizeof s) == sizeof s) {
    received_ = static_cast<int>(s.ssi_signo);
    // timeout(1) signals its child and then its group, but means one signal
    ::poll(nullptr, 0, 100);
    while (::read(fd_.get(), &s, sizeof s) > 0) {}
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  return received_;
}

void sleep_until(Deadline until, int fd, int signal_fd) {
  pollfd fds[] = {{fd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
  if (wait_until(fds, until) > 0 && fds[0].revents) {
    eventfd_t n = 0;
    ::eventfd_read(fd, &n);
  }
}

namespace {

void put(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

}  // namespace

Duration ProgressLine::every() const noexcept {
  return plan_.quiet ? 0us : plan_.progress > 0us ? plan_.progress : plan_.bar ? 200ms : 0us;
}

void ProgressLine::show(const std::string& title, const Arena& arena, Nanoseconds since,
                        Nanoseconds of) {
  const auto seconds = [](Nanoseconds n) { return std::chrono::duration<double>(n).count(); };
  const double rate = since > 0ns ? static_cast<double>(arena.grants.load()) / seconds(since) : 0;
  const std::string time = of > 0ns ? fmt::format("{:.1f}/{:.1f}s", seconds(since), seconds(of))
                                    : fmt::format("{:.1f}s", seconds(since));
  report(fmt::format("{}  {}  {}/s  err {}  overlaps {}", title, time, grouped(rate),
                     arena.errors.load(), arena.tally().overlaps));
}

void ProgressLine::report(const std::string& line) {
  if (every() == 0us) return;
  if (plan_.progress > 0us) return put(fmt::format("progress: {}\n", line));
  put(fmt::format("\r\033[K{}", line));
  drawn_ = true;
}

void ProgressLine::clear() {
  if (drawn_) put("\r\033[K");
  drawn_ = false;
}

}  // namespace dlock::bench
