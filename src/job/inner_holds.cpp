// SPDX-License-Identifier: Apache-2.0
#include "job/inner_holds.hpp"
#include <fcntl.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include "core/owner.hpp"
#include "core/text.hpp"
#include "job/unix_socket.hpp"

namespace dlock::run {
namespace {

// How many connections may wait until dlock accepts them. Ctrl-Z may stop dlock for long, while
// runs in its job begin and end.
constexpr int unread_by_dlock = 64;
// How many descriptors stay free, to end the job and to reach the store again.
constexpr int reserve = 4;

AbstractAddress address_of(std::string_view run, Killer who) {
  return AbstractAddress(
      std::string("dlock-run/").append(run).append(who == Killer::guard ? "/guard" : "/dlock"));
}

constexpr int kind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

bool is_same_user(int socket) {
  const auto peer = peer_of(socket);
  return peer && peer->uid == ::geteuid();
}

// Returns whether the error may be temporary. Any other error means that a sandbox forbids Unix
// sockets, or that nobody listens any more.
bool is_scarcity(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS ||
         error == EAGAIN || error == ETOOMANYREFS;
}

// Returns 0 or an errno.
int send(int socket, const int* fds, std::size_t count) {
  Carrier message;
  message.attached.put(message.header, fds, count);
  return ::sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

// Retries for a fifth of a second at most, because other runs of this user may have too many
// descriptors in sockets for a moment.
template <class Call>
int retried(Call call) {
  int error = call();
  for (int tries = 20; tries > 0 && is_scarcity(error); --tries) {
    ::poll(nullptr, 0, 10);
    error = call();
  }
  return error;
}

// Hands the socket to one process. Returns 0 or an errno. After an errno for which is_scarcity() is
// false, do not retry: the process has ended or belongs to another user, or sockets are forbidden.
int offer(const AbstractAddress& address, int kept) {
  const Fd socket(::socket(AF_UNIX, kind, 0));
  if (!socket || ::connect(socket.get(), address.get(), address.size) != 0) return errno;
  // The name is public: when its owner has ended, any process may take the name.
  return is_same_user(socket.get()) ? send(socket.get(), &kept, 1) : ECONNREFUSED;
}

bool is_nearly_full() {
  std::vector<Fd> tried;
  while (tried.size() < reserve)
    if (!tried.emplace_back(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3))) return true;
  return false;
}

bool is_forbidden(int error) {
  return error == EPERM || error == EACCES || error == EAFNOSUPPORT || error == ENOSYS;
}

}  // namespace

// ---- the receiver ------------------------------------------------------------------------------

FailedCall InnerHolds::listen(std::string_view run, Killer who) {
  const auto failed = [](const char* call) {
    return is_forbidden(errno) ? FailedCall{} : FailedCall{call, errno};
  };
  const AbstractAddress address = address_of(run, who);
  Fd fd(::socket(AF_UNIX, kind, 0));
  if (!fd) return failed("socket");
  if (::bind(fd.get(), address.get(), address.size) != 0) return failed("bind");
  if (::listen(fd.get(), who == Killer::guard ? SOMAXCONN : unread_by_dlock) != 0)
    return failed("listen");
  listener_ = std::move(fd);
  return {};
}

void InnerHolds::watch(std::vector<pollfd>& out) const {
  for (const HeldLock& h : holds_)
    out.push_back({h.is_orphan ? -1 : h.socket.get(), 0, 0});  // wait only for its end of file
  if (is_full_) return;
  for (const Fd& offer : offers_) out.push_back({offer.get(), POLLIN, 0});
  if (listener_) out.push_back({listener_.get(), POLLIN, 0});
}

// If an inner guard has closed its end of a socket that we hold, there are two cases. If the guard
// has read the duplicates from the socket, its job is dead: drop the socket. If the duplicates are
// still there, the guard itself has died: keep the socket.
void InnerHolds::serve() {
  if (is_full_) is_full_ = is_nearly_full();
  std::vector<pollfd> ready;
  watch(ready);
  if (::poll(ready.data(), ready.size(), 0) <= 0) return;
  auto state = ready.cbegin();
  std::erase_if(holds_, [&](HeldLock& h) {
    if ((state++)->revents == 0) return false;
    char text = 0;
    h.is_orphan = ::recv(h.socket.get(), &text, sizeof text, MSG_PEEK | MSG_DONTWAIT) > 0;
    return !h.is_orphan;
  });
  if (std::all_of(state, ready.cend(), [](auto& p) { return p.revents == 0; })) return;
  is_full_ = is_nearly_full();
  if (is_full_) return;
  std::erase_if(offers_, [this](const Fd& offer) { return read(offer); });
  accept();
}

// Accepts one connection of our user. It skips at most as many strangers as the queue holds,
// because strangers may connect without end.
void InnerHolds::accept() {
  for (int tries = 0; tries < unread_by_dlock; ++tries) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) is_full_ = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
    else if (is_same_user(fd.get())) offers_.push_back(std::move(fd));
    else continue;
    return;
  }
}

// Gets the socket from the message by MSG_PEEK, so the message stays in the queue until we close
// the connection. So the socket is never lost, even if no descriptor is free for it.
bool InnerHolds::read(const Fd& offer) {
  Carrier message;
  msghdr& h = message.header;
  message.attached.prepare(h);
  const ssize_t n = ::recvmsg(offer.get(), &h, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n <= 0) return n == 0 || (errno != EAGAIN && errno != EINTR);
  std::vector<Fd> taken;
  Attached::take(h, taken);
  is_full_ |= taken.empty() && (h.msg_flags & MSG_CTRUNC) != 0;
  for (Fd& fd : taken) holds_.push_back({std::move(fd)});
  return !is_full_;
}

void InnerHolds::clear() {
  listener_.reset();
  offers_.clear();
  holds_.clear();
}

// ---- the sender --------------------------------------------------------------------------------

FailedCall OuterHolders::keep_unread(const std::vector<Fd>& holds) {
  int pair[2];
  if (::socketpair(AF_UNIX, kind, 0, pair) != 0) return {"socketpair", errno};
  our_end_.reset(pair[0]);
  kept_.reset(pair[1]);
  std::vector<int> fds;
  for (const Fd& hold : holds) fds.push_back(hold.get());
  for (std::size_t from = 0; from < fds.size(); from += most_attached) {
    const std::size_t count = std::min(fds.size() - from, most_attached);
    if (const int error = retried([&] { return send(our_end_.get(), &fds[from], count); });
        error != 0)
      return {"sendmsg", error};
  }
  return {};
}

FailedCall OuterHolders::hand_over(const std::vector<std::string>& runs,
                                   const std::vector<Fd>& holds) {
  if (runs.empty() || holds.empty()) return {};
  if (const FailedCall call = keep_unread(holds)) return call;
  for (const std::string& run : runs) {
    for (const Killer who : {Killer::guard, Killer::dlock}) {
      const AbstractAddress address = address_of(run, who);
      const int error = retried([&] { return offer(address, kept_.get()); });
      const bool passes_over = who == Killer::dlock && error == EAGAIN;
      if (is_scarcity(error) && !passes_over) return {"sendmsg", error};
    }
  }
  return {};
}

void OuterHolders::job_is_dead() {
  char text = 0;
  // This call has no room for the descriptors of the message, so the kernel closes them.
  while (kept_ && ::recv(kept_.get(), &text, sizeof text, MSG_DONTWAIT) > 0) {}
  kept_.reset();
  our_end_.reset();
}

std::vector<std::string> runs_around() {
  std::vector<std::string> found;
  const char* text = std::getenv("DLOCK_RUNS");
  for (std::string_view rest = text ? text : ""; !rest.empty();)
    if (const auto run = Owner::parse(next_part(rest, ':'))) found.push_back(run->hex());
  return found;
}

}  // namespace dlock::run
