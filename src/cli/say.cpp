// SPDX-License-Identifier: Apache-2.0
#include "cli/say.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include "run/lines.hpp"
#include "util/file.hpp"

namespace dlock::cli {
namespace {

bool as_json = false;  // set once, before any thread

// Turns a SIGPIPE of this thread into EPIPE, without changing the process's disposition.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec now{};
    // takes the one that the write has raised, if any
    if (!was_pending_) ::sigtimedwait(&pipe_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace

void put_on_stderr(std::string_view text) {
  const NoSigpipe quiet;
  write_all(STDERR_FILENO, text);  // a failure here cannot be reported
}

void say_as_json() noexcept { as_json = true; }

void say(std::string_view message) { put_on_stderr(run::own_word("error", {}, message, as_json)); }

Result<void> put(std::string_view text) {
  const NoSigpipe quiet;
  const int error = write_all(STDOUT_FILENO, text);
  if (!error) return {};
  return fail(Errc::cannot_create,
              fmt::format("cannot write to standard output: {}", ::strerrordesc_np(error)));
}

void fill_closed_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0)
      // the lowest free one: fd
      ::open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

Result<void> stdout_usable() {
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return {};
  return fail(Errc::usage, "standard output is not open for writing");
}

}  // namespace dlock::cli
