// SPDX-License-Identifier: Apache-2.0
#include "run/keeper_socket.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace dlock::run {
namespace {

constexpr timeval patience{5, 0}, short_patience{0, 500'000};

struct Address {
  sockaddr_un un{};
  socklen_t size;
  explicit Address(std::string_view name) {
    const std::string text = fmt::format("dlock-keeper/{}", name.substr(0, 64));
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path + 1, text.data(), text.size());  // the leading NUL makes it abstract
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&un); }
};

bool trusted_peer(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == ::geteuid() || peer.uid == 0);
}

void give_up_after(int fd, const timeval& t) {
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

std::string receive(int fd) {
  std::array<char, 128> text;
  const ssize_t n = ::recv(fd, text.data(), text.size(), 0);
  return n > 0 ? std::string(text.data(), static_cast<std::size_t>(n)) : std::string();
}

}  // namespace

Result<Fd> listen_as_keeper(std::string_view name) {
  const Address at(name);
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), at.get(), at.size) != 0 || ::listen(fd.get(), 16) != 0)
    return fail(Errc::unavailable, fmt::format("no socket for the keeper: {}", ::strerrordesc_np(errno)));
  return fd;
}

Result<KeeperAnswer> ask_keeper(std::string_view name, std::string_view what, const Owner& owner) {
  const Address at(name);
  const Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return fail(Errc::unavailable, fmt::format("no socket: {}", ::strerrordesc_np(errno)));
  give_up_after(fd.get(), patience);
  if (::connect(fd.get(), at.get(), at.size) != 0) {
    if (errno == ECONNREFUSED) return KeeperAnswer::not_held;
    return fail(Errc::unavailable, fmt::format("the keeper cannot be reached: {}", ::strerrordesc_np(errno)));
  }
  if (!trusted_peer(fd.get())) return fail(Errc::denied, "another user has taken the place of the keeper");
  const std::string question = fmt::format("{} {}", what, owner.hex());
  if (::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) < 0)
    return fail(Errc::timed_out, fmt::format("the keeper does not listen: {}", ::strerrordesc_np(errno)));
  const std::string reply = receive(fd.get());
  if (reply == "done") return KeeperAnswer::done;
  if (reply == "not held") return KeeperAnswer::not_held;
  return fail(Errc::timed_out, "the keeper did not answer");
}

KeeperQuestion next_question(int listener, const Owner& owner) {
  KeeperQuestion q{{}, Fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC))};
  if (!q.reply || !trusted_peer(q.reply.get())) return {};
  give_up_after(q.reply.get(), short_patience);
  const std::string text = receive(q.reply.get());
  for (const std::string_view what : {"renew", "release", "check"})
    if (text == fmt::format("{} {}", what, owner.hex())) q.what = what;
  if (q.what.empty()) answer(q, KeeperAnswer::not_held);
  return q;
}

void answer(const KeeperQuestion& q, KeeperAnswer a) noexcept {
  const std::string_view text = a == KeeperAnswer::done ? "done" : "not held";
  if (q.reply) ::send(q.reply.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace dlock::run
