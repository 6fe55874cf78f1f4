// SPDX-License-Identifier: Apache-2.0
#include "support/pty.hpp"
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace dlock::test {

Pty::Pty() : master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  char name[64];
  if (!master || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0 ||
      ::ptsname_r(master.get(), name, sizeof name) != 0)
    give_up(std::string("pty: ") + std::strerror(errno));
  slave.reset(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!slave) give_up(std::string(name) + ": " + std::strerror(errno));
  const winsize size{24, 120, 0, 0};
  ::ioctl(slave.get(), TIOCSWINSZ, &size);
}

bool Terminal::fill(double until) {
  pollfd p{master_.get(), POLLIN, 0};
  const double left = until - boot_now();
  if (!master_ || ::poll(&p, 1, left <= 0 ? 0 : int(std::ceil(left * 1000))) <= 0) return false;
  char buffer[4096];
  const ssize_t n = ::read(master_.get(), buffer, sizeof buffer);  // EIO: no slave is open
  if (n > 0) shown_.append(buffer, std::size_t(n));
  return n > 0;
}

bool Terminal::expect(std::string_view text, double seconds) {
  for (const double until = boot_now() + seconds;;) {
    if (const auto at = shown_.find(text, found_); at != shown_.npos) {
      found_ = at + text.size();
      return true;
    }
    if (!fill(until)) return false;
  }
}

void Terminal::type(std::string_view text) {
  if (::write(master_.get(), text.data(), text.size()) != ssize_t(text.size()))
    give_up(std::string("write to a pty: ") + std::strerror(errno));
}

void Terminal::drain(double seconds) {
  for (const double until = boot_now() + seconds; fill(until);) {}
}

}  // namespace dlock::test
