// SPDX-License-Identifier: Apache-2.0
// Calls of Connector/C that work in steps: what they wait for, MYSQL_WAIT_*, in terms of poll(2).
#pragma once
#include <mysql.h>
#include <poll.h>

#ifdef MARIADB_PACKAGE_VERSION
namespace dlock::mysql {

inline short events_of(int awaited) noexcept {
  return static_cast<short>((awaited & MYSQL_WAIT_READ ? POLLIN : 0) |
                            (awaited & MYSQL_WAIT_WRITE ? POLLOUT : 0) |
                            (awaited & MYSQL_WAIT_EXCEPT ? POLLPRI : 0));
}
// 0: nothing that it waits for.
inline int happened_of(short revents, int awaited) noexcept {
  int happened = 0;
  if (revents & POLLIN) happened |= MYSQL_WAIT_READ;
  if (revents & POLLOUT) happened |= MYSQL_WAIT_WRITE;
  if (revents & POLLPRI) happened |= MYSQL_WAIT_EXCEPT;
  // the library finds the error itself
  if (revents & (POLLERR | POLLHUP | POLLNVAL)) happened |= awaited & ~MYSQL_WAIT_TIMEOUT;
  return happened;
}

}  // namespace dlock::mysql
#endif
