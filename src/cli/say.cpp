// SPDX-License-Identifier: Apache-2.0
#include "cli/say.hpp"
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include "job/signals.hpp"
#include "report/lines.hpp"
#include "util/file.hpp"

namespace dlock::cli {
namespace {

run::MessageFormat message_format = run::MessageFormat::text;  // set once, before any thread exists

// Returns 0 or errno. A SIGPIPE of this thread becomes EPIPE; the disposition of the process stays.
int write_without_sigpipe(int fd, std::string_view text) noexcept {
  sigset_t pipe, pending, before;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const int error = write_all(fd, text);
  const timespec now{};
  if (::sigismember(&pending, SIGPIPE) != 1) ::sigtimedwait(&pipe, nullptr, &now);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

constexpr int signal_base = 128;  // a shell's $? after a signal: 128 + its number

// Safe in signal handlers.
void print_exit(int status) noexcept {
  char text[32] = "(exit ";
  char* end = std::to_chars(text + 6, text + sizeof text - 2, status).ptr;
  *end++ = ')';
  *end++ = '\n';
  pollfd p{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&p, 1, 200) <= 0) return;
  // Nobody could learn of a failure. Write only once, because a signal handler must not wait.
  if (::write(STDOUT_FILENO, text, static_cast<std::size_t>(end - text)) < 0) return;
}

void on_signal(int signal) {
  print_exit(signal_base + signal);
  run::finish({.by_signal = true, .value = signal});
}

}  // namespace

void print_on_stderr(std::string_view text) {
  write_without_sigpipe(STDERR_FILENO, text);  // a failure could not be reported
}

void say_as_json() noexcept { message_format = run::MessageFormat::json; }

void say(std::string_view message) {
  print_on_stderr(run::message_line("error", {}, message, message_format));
}

void say_warning(std::string_view message) {
  print_on_stderr(run::message_line("warning", {}, message, message_format));
}

Result<void> print(std::string_view text) {
  const int error = write_without_sigpipe(STDOUT_FILENO, text);
  if (!error) return {};
  return fail(Errc::cannot_create, "cannot write to standard output: {}", ::strerrordesc_np(error));
}

void fill_closed_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0)
      // open() returns the lowest free number, which is `fd`.
      ::open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

Result<void> stdout_usable() {
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return {};
  return fail(Errc::usage, "standard output is not open for writing");
}

bool requests_env(int argc, char** argv) noexcept {
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
    if (run::is_stop_signal(signal) || run::ignored_by_default(signal)) continue;
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
      ::sigaction(signal, &line, nullptr);  // KILL and STOP cannot be handled
  }
}

void fail_closed(const run::Outcome& o) noexcept {
  if (!o.by_signal && o.value == 0) return;
  print_exit(o.by_signal ? signal_base + o.value : o.value);
}

}  // namespace dlock::cli
