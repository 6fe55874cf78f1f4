// SPDX-License-Identifier: Apache-2.0
// Finds the socket of the client library. Also translates between MYSQL_WAIT_* and the events of
// poll(2), for the calls of Connector/C that work in steps.
#pragma once
#include <mysql.h>
#include <poll.h>

namespace dlock::mysql {

// -1: there is no socket. A call that fails because the connection has ended closes the socket.
inline int socket_of(MYSQL* m) noexcept {
#ifdef MARIADB_PACKAGE_VERSION
  return static_cast<int>(::mysql_get_socket(m));
#else
  return m->net.vio ? static_cast<int>(m->net.fd) : -1;
#endif
}

#ifdef MARIADB_PACKAGE_VERSION
inline short events_of(int awaited) noexcept {
  return static_cast<short>((awaited & MYSQL_WAIT_READ ? POLLIN : 0) |
                            (awaited & MYSQL_WAIT_WRITE ? POLLOUT : 0) |
                            (awaited & MYSQL_WAIT_EXCEPT ? POLLPRI : 0));
}
// Returns 0 if nothing happened that the call waits for.
inline int happened_of(short revents, int awaited) noexcept {
  int happened = 0;
  if (revents & POLLIN) happened |= MYSQL_WAIT_READ;
  if (revents & POLLOUT) happened |= MYSQL_WAIT_WRITE;
  if (revents & POLLPRI) happened |= MYSQL_WAIT_EXCEPT;
  // the library finds the error itself
  if (revents & (POLLERR | POLLHUP | POLLNVAL)) happened |= awaited & ~MYSQL_WAIT_TIMEOUT;
  return happened;
}
#endif

}  // namespace dlock::mysql
