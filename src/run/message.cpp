// SPDX-License-Identifier: Apache-2.0
#include "run/message.hpp"
#include <sys/socket.h>
#include <sys/uio.h>
#include <cerrno>
#include <cstring>

namespace dlock::run {
namespace {

ssize_t send_flags(int fd, const Message& m, std::string_view payload, int attach, int flags) {
  iovec parts[2] = {{const_cast<Message*>(&m), sizeof m}, {const_cast<char*>(payload.data()), payload.size()}};
  msghdr h{};
  h.msg_iov = parts;
  h.msg_iovlen = payload.empty() ? 1 : 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (attach >= 0) {
    h.msg_control = control;
    h.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&h);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &attach, sizeof attach);
  }
  return ::sendmsg(fd, &h, MSG_NOSIGNAL | flags);
}

}  // namespace

bool Channel::make_pair(Fd& a, Fd& b) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return false;
  for (const int fd : fds) {
    const int room = 2 * static_cast<int>(max_payload);  // as much of it as the system permits
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  }
  a.reset(fds[0]);
  b.reset(fds[1]);
  return true;
}

bool Channel::send(const Message& m, std::string_view payload, int attach) const {
  return open() && send_flags(fd(), m, payload, attach, MSG_DONTWAIT) >= 0;
}

bool Channel::send_and_wait(const Message& m) const { return open() && send_flags(fd(), m, {}, -1, 0) >= 0; }

Channel::Got Channel::receive(Received& out) {
  if (!open()) return Got::closed;
  static char payload[max_payload];  // dlock and guard each have one reader
  iovec parts[2] = {{&out.message, sizeof out.message}, {payload, sizeof payload}};
  msghdr h{};
  h.msg_iov = parts;
  h.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  h.msg_control = control;
  h.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(fd(), &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Got::nothing;
  if (n < static_cast<ssize_t>(sizeof out.message)) return Got::closed;
  out.payload = {payload, static_cast<std::size_t>(n) - sizeof out.message};
  out.attached = (h.msg_flags & MSG_CTRUNC) ? -2 : -1;
  out.cut = (h.msg_flags & MSG_TRUNC) != 0;
  if (const cmsghdr* c = CMSG_FIRSTHDR(&h); c && c->cmsg_type == SCM_RIGHTS)
    std::memcpy(&out.attached, CMSG_DATA(c), sizeof(int));
  return Got::message;
}

}  // namespace dlock::run
