// SPDX-License-Identifier: Apache-2.0
#include "cli/fail_closed.hpp"
#include <poll.h>
#include <unistd.h>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include "run/signals.hpp"

namespace dlock::cli {
namespace {

constexpr int signal_base = 128;  // of a shell's $?

// For signal handlers, too.
void print(int status) noexcept {
  char text[32] = "(exit ";
  char* end = std::to_chars(text + 6, text + sizeof text - 2, status).ptr;
  *end++ = ')';
  *end++ = '\n';
  pollfd p{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&p, 1, 200) <= 0) return;
  // a failure here cannot be reported
  if (::write(STDOUT_FILENO, text, static_cast<std::size_t>(end - text)) < 0) return;
}

void on_signal(int signal) {
  print(signal_base + signal);
  run::finish({.by_signal = true, .value = signal});
}

}  // namespace

bool asks_for_env(int argc, char** argv) noexcept {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i], next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--") break;
    if (word == "--output=env" || (word == "--output" && next == "env")) return true;
  }
  const char* twin = std::getenv("DLOCK_OUTPUT");  // NOLINT(concurrency-mt-unsafe): no thread yet
  return twin && std::string_view(twin) == "env" && argc > 1 &&
         std::string_view(argv[1]) == "acquire";
}

void fail_closed_on_signals() noexcept {
  struct sigaction line {};
  line.sa_handler = on_signal;
  ::sigfillset(&line.sa_mask);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction now {};
    if (run::stops(signal) || run::ignored_by_default(signal)) continue;
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
      ::sigaction(signal, &line, nullptr);  // not of KILL and STOP
  }
}

void fail_closed(const run::Outcome& o) noexcept {
  if (!o.by_signal && o.value == 0) return;
  sigset_t pipe;  // of a reader that has gone; this process ends now
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  print(o.by_signal ? signal_base + o.value : o.value);
}

}  // namespace dlock::cli
