// SPDX-License-Identifier: Apache-2.0
#include "run/inner_holds.hpp"
#include <fcntl.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include "run/unix_socket.hpp"

namespace dlock::run {
namespace {

// What a message says: how many descriptors to hold come with it. Zero: the job of the sender is
// dead.
using Count = std::uint32_t;

constexpr int most_walks = 100;  // each one that is repeated has met a death

// The start time makes the name unique for a reused pid, and hard to guess for other users, who
// could take it first. The namespace (its inode number): containers that share a network have the
// same pids.
AbstractAddress address_of(const ProcessId& id, std::uint64_t pid_namespace) {
  return AbstractAddress("dlock-holds/" + std::to_string(pid_namespace) + '/' +
                         std::to_string(id.pid) + '/' + std::to_string(id.start));
}

Fd new_socket() { return Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// Errors that may pass. Any other one means that there are no Unix sockets here (a sandbox), or
// that nobody listens.
bool is_scarcity(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS ||
         error == EAGAIN || error == ETOOMANYREFS;
}

// A process that has ended counts as one below us: its job may live.
bool may_be_below_us(pid_t pid) {
  const pid_t us = ::getpid();
  for (auto process = process_stat(pid); process; process = process_stat(process->parent)) {
    if (process->parent == us) return true;
    if (process->parent <= 1) return false;
  }
  return true;
}

bool may_send(int socket) {
  const auto peer = peer_of(socket);
  return peer && (is_trusted(*peer) || (::geteuid() == 0 && may_be_below_us(peer->pid)));
}

// Whether as many descriptors can be opened. A message whose descriptors do not fit loses them.
bool has_room(std::size_t count) {
  std::vector<Fd> tried;
  while (tried.size() < count)
    if (!tried.emplace_back(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3))) return false;
  return true;
}

// 0, or an errno: if it is no scarcity, that process holds no descriptors for us.
int connect_to(const ProcessId& holder, std::uint64_t pid_namespace, Fd& socket) {
  const AbstractAddress address = address_of(holder, pid_namespace);
  if (!socket) socket = new_socket();
  if (!socket || ::connect(socket.get(), address.get(), address.size) != 0) return errno;
  const auto peer = peer_of(socket.get());
  if (peer && peer->pid == holder.pid && is_trusted(*peer)) return 0;
  socket.reset();
  return ECONNREFUSED;
}

// 0, or an errno.
int send(int socket, const int* fds, std::size_t count) {
  Count number = static_cast<Count>(count);
  iovec part{&number, sizeof number};
  msghdr h{};
  h.msg_iov = &part;
  h.msg_iovlen = 1;
  Attached attached;
  attached.put(h, fds, count);
  return ::sendmsg(socket, &h, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

// Other runs of this user may have too many descriptors on their way at this moment. A fifth of a
// second at most.
template <class Call>
int retried(Call call) {
  int error = call();
  for (int tries = 20; tries > 0 && is_scarcity(error); --tries) {
    ::poll(nullptr, 0, 10);
    error = call();
  }
  return error;
}

}  // namespace

// ---- the receiver ------------------------------------------------------------------------------

FailedCall InnerHolds::listen() {
  if (listener_) return {};
  const auto self = process_stat(::getpid());
  if (!self) return {"open", EMFILE};
  const AbstractAddress address = address_of(self->id, own_namespace("pid"));
  const auto failed = [](const char* call) {
    // where Unix sockets are forbidden, the runs in our job cannot reach us either
    return is_scarcity(errno) || errno == EADDRINUSE ? FailedCall{call, errno} : FailedCall{};
  };
  Fd fd = new_socket();
  if (!fd) return failed("socket");
  if (::bind(fd.get(), address.get(), address.size) != 0) return failed("bind");
  if (::listen(fd.get(), SOMAXCONN) != 0) return failed("listen");
  listener_ = std::move(fd);
  return {};
}

void InnerHolds::watch(std::vector<pollfd>& out) const {
  if (listener_ && !listener_waits_) out.push_back({listener_.get(), POLLIN, 0});
  for (const Sender& s : senders_)
    if (s.socket && !s.waits) out.push_back({s.socket.get(), POLLIN, 0});
}

void InnerHolds::serve() {
  accept();
  bool closed = false;
  for (Sender& s : senders_) closed |= read(s);
  std::erase_if(senders_, [](const Sender& s) { return !s.socket && s.holds.empty(); });
  if (!closed) return;
  listener_waits_ = false;
  for (Sender& s : senders_) s.waits = false;
}

void InnerHolds::accept() {
  while (listener_ && !listener_waits_) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd && may_send(fd.get())) senders_.push_back({std::move(fd)});
    else if (!fd && errno == EAGAIN) return;
    else if (!fd) listener_waits_ = is_scarcity(errno);
  }
}

bool InnerHolds::read(Sender& s) {
  while (s.socket && !s.waits) {
    Count count = 0;
    const ssize_t n = ::recv(s.socket.get(), &count, sizeof count, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    const bool is_message = n == static_cast<ssize_t>(sizeof count);
    if (!is_message || count == 0) {  // not a message: the end of file
      if (is_message) s.holds.clear();
      s.socket.reset();
      return true;
    }
    s.waits = !has_room(std::min<std::size_t>(count, most_attached));
    if (s.waits) return false;
    iovec part{&count, sizeof count};
    msghdr h{};
    h.msg_iov = &part;
    h.msg_iovlen = 1;
    Attached attached;
    attached.prepare(h);
    if (::recvmsg(s.socket.get(), &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return false;
    Attached::take(h, s.holds);
  }
  return false;
}

void InnerHolds::clear() {
  listener_.reset();
  senders_.clear();
}

// ---- the sender --------------------------------------------------------------------------------

// When an ancestor dies during the walk, its children move up, past it: the walk is repeated.
FailedCall OuterHolders::hand_over(pid_t dlock, const std::vector<Fd>& holds) {
  if (holds.empty()) return {};
  std::vector<int> fds;
  for (const Fd& hold : holds) fds.push_back(hold.get());
  for (int tries = 0; tries < most_walks; ++tries) {
    const auto walk = walk_up(dlock, fds);
    if (walk) return *walk;
    job_is_dead();  // there is none yet
  }
  return {"open", ESRCH};
}

// Nothing: an ancestor has died. Most ancestors hold nothing: to learn that costs four calls each.
std::optional<FailedCall> OuterHolders::walk_up(pid_t dlock, const std::vector<int>& fds) {
  const std::uint64_t space = own_namespace("pid");
  Fd socket;
  std::uint64_t child_start = std::numeric_limits<std::uint64_t>::max();
  for (pid_t pid = dlock; pid > 0;) {
    errno = 0;
    const auto process = process_stat(pid);
    if (!process && is_scarcity(errno)) return FailedCall{"open", errno};
    if (!process && ::kill(pid, 0) != 0 && errno == ESRCH) return std::nullopt;
    if (!process) return FailedCall{};  // a /proc that hides it
    // another process has its pid by now
    if (process->id.start > std::exchange(child_start, process->id.start)) return std::nullopt;
    const bool is_outer = pid != dlock;
    // process 1 adopts those that entered its container (docker exec), and may be a dlock
    pid = process->parent == 0 && pid != 1 ? 1 : process->parent;
    if (!is_outer) continue;
    const int refused = retried([&] { return connect_to(process->id, space, socket); });
    if (is_scarcity(refused)) return FailedCall{"connect", refused};
    if (refused != 0) continue;
    for (std::size_t from = 0; socket && from < fds.size(); from += most_attached) {
      const std::size_t count = std::min(fds.size() - from, most_attached);
      const int error = retried([&] { return send(socket.get(), &fds[from], count); });
      if (is_scarcity(error)) return FailedCall{"sendmsg", error};
      if (error != 0) socket.reset();  // it has ended
    }
    if (socket) connections_.push_back(std::move(socket));
  }
  return FailedCall{};
}

void OuterHolders::job_is_dead() {
  for (const Fd& socket : connections_) (void)send(socket.get(), nullptr, 0);
  connections_.clear();
}

}  // namespace dlock::run
