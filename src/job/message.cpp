// SPDX-License-Identifier: Apache-2.0
#include "job/message.hpp"
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <cerrno>
#include "job/unix_socket.hpp"

namespace dlock::run {
namespace {

ssize_t send_flags(int fd, const Message& m, std::string_view payload, const int* fds,
                   std::size_t count, int flags) {
  iovec parts[2] = {{const_cast<Message*>(&m), sizeof m},
                    {const_cast<char*>(payload.data()), payload.size()}};
  msghdr h{};
  h.msg_iov = parts;
  h.msg_iovlen = payload.empty() ? 1 : 2;
  Attached attached;
  attached.put(h, fds, count);
  return ::sendmsg(fd, &h, MSG_NOSIGNAL | flags);
}

bool queue_is_full() { return errno == EAGAIN || errno == ENOBUFS; }

// Returns whether the newer message makes the older one void.
bool replaces(const Message& newer, const Message& older) {
  const auto is_run_state = [](const GuardEvent& e) {
    return std::holds_alternative<event::JobStopped>(e) ||
           std::holds_alternative<event::JobContinued>(e);
  };
  if (newer.index() != older.index()) return false;
  if (const auto* s = std::get_if<order::Signal>(&newer)) {
    const auto& before = std::get<order::Signal>(older);
    return s->number == before.number && s->whole_tree == before.whole_tree;
  }
  const auto* e = std::get_if<GuardEvent>(&newer);
  if (!e) return true;
  const auto& before = std::get<GuardEvent>(older);
  return e->index() == before.index() || (is_run_state(*e) && is_run_state(before));
}

}  // namespace

bool Channel::make_pair(Fd& a, Fd& b) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return false;
  for (const int fd : fds) {
    const int room = 2 * static_cast<int>(max_payload);  // the system may grant less
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  }
  a.reset(fds[0]);
  b.reset(fds[1]);
  return true;
}

void Channel::keep(const Message& m) {
  std::erase_if(unsent_, [&](const Message& older) { return replaces(m, older); });
  unsent_.push_back(m);
}

bool Channel::send(const Message& m) {
  if (!open()) return false;
  if (unsent() && !flush()) return false;
  if (!unsent() && send_flags(fd(), m, {}, nullptr, 0, MSG_DONTWAIT) >= 0) return true;
  if (!unsent() && !queue_is_full()) return false;
  keep(m);
  return true;
}

bool Channel::flush() {
  std::size_t done = 0;
  bool alive = open();
  while (alive && done < unsent_.size()) {
    if (send_flags(fd(), unsent_[done], {}, nullptr, 0, MSG_DONTWAIT) >= 0) ++done;
    else if (queue_is_full()) break;
    else alive = false;
  }
  unsent_.erase(unsent_.begin(),
                alive ? unsent_.begin() + static_cast<std::ptrdiff_t>(done) : unsent_.end());
  return alive;
}

bool Channel::send_and_wait(const Message& m) {
  if (!open()) return false;
  keep(m);
  for (const Message& next : unsent_)
    if (send_flags(fd(), next, {}, nullptr, 0, 0) < 0) return false;
  unsent_.clear();
  return true;
}

int Channel::send_with(const Message& m, std::string_view payload, const std::vector<int>& fds) {
  if (!open()) return EPIPE;
  int tries = 20;
  for (; unsent(); ::poll(nullptr, 0, 10)) {  // older messages must arrive before this one
    if (!flush()) return EPIPE;
    if (unsent() && --tries < 0) return EAGAIN;
  }
  const auto send = [&](const Message& what, std::string_view with, std::size_t from,
                        std::size_t count) {
    while (send_flags(fd(), what, with, fds.data() + from, count, MSG_DONTWAIT) < 0) {
      if ((errno != ETOOMANYREFS && !queue_is_full()) || --tries < 0) return errno;
      ::poll(nullptr, 0, 10);
    }
    return 0;
  };
  std::size_t from = 0;
  for (; fds.size() - from > most_attached; from += most_attached)
    if (const int error = send(order::HoldFds{}, {}, from, most_attached); error != 0) return error;
  return send(m, payload, from, fds.size() - from);
}

Channel::ReceiveResult Channel::receive(Received& out) {
  if (!open()) return ReceiveResult::closed;
  static char payload[max_payload];  // one message at a time, so all channels share it
  iovec parts[2] = {{&out.message, sizeof out.message}, {payload, sizeof payload}};
  msghdr h{};
  h.msg_iov = parts;
  h.msg_iovlen = 2;
  Attached attached;
  attached.prepare(h);
  out.attached.clear();
  // If the peer exits before it reads a message of ours, the kernel reports ECONNRESET once, before
  // the peer's own last messages. These can be read after the error.
  ssize_t n = -1;
  for (int attempt = 0; attempt < 2; ++attempt) {
    n = ::recvmsg(fd(), &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n >= 0 || errno != ECONNRESET) break;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return ReceiveResult::nothing;
  if (n < static_cast<ssize_t>(sizeof out.message)) return ReceiveResult::closed;
  out.payload = {payload, static_cast<std::size_t>(n) - sizeof out.message};
  out.misses_fds = (h.msg_flags & MSG_CTRUNC) != 0;
  out.is_truncated = (h.msg_flags & MSG_TRUNC) != 0;
  Attached::take(h, out.attached);
  return ReceiveResult::message;
}

}  // namespace dlock::run
