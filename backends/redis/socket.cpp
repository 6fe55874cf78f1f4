// SPDX-License-Identifier: Apache-2.0
#include "redis/socket.hpp"
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include "redis/connection.hpp"

namespace dlock::redis {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* a) const noexcept { ::freeaddrinfo(a); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> look_up(const Endpoint& at) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  const std::string port = fmt::format_int(at.port).str();
  addrinfo* found = nullptr;
  int error = ::getaddrinfo(at.host.c_str(), port.c_str(), &hints, &found);
  if (error == EAI_NONAME) {  // not an address
    hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
    error = ::getaddrinfo(at.host.c_str(), port.c_str(), &hints, &found);
  }
  if (error != 0) return fail(Errc::unavailable, fmt::format("cannot find host {}: {}", at.host, ::gai_strerror(error)));
  return Addresses{found};
}

void set(int fd, int level, int option, int value) noexcept { ::setsockopt(fd, level, option, &value, sizeof value); }

// A peer that is gone without a word is noticed: with data on its way after `silence`, on an idle connection after 30 s.
void tune(int fd, Duration silence) noexcept {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count();
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::clamp<long long>(ms, 100, 3'600'000)));
}

Result<Fd> connect_address(const sockaddr* address, socklen_t size, int family, const Wait& wait) {
  Fd fd{::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!fd) return fail(Errc::unavailable, fmt::format("socket: {}", std::strerror(errno)));
  int error = ::connect(fd.get(), address, size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    if (!wait_for(fd.get(), POLLOUT, wait))
      return fail(Errc::unavailable, wait.interrupted() ? "interrupted" : "no answer in time");
    socklen_t length = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == EAGAIN) return fail(Errc::unavailable, "its queue of connections is full");  // a unix socket
  if (error == EACCES) return fail(Errc::denied, std::strerror(error));
  if (error != 0) return fail(Errc::unavailable, std::strerror(error));
  return fd;
}

Result<Fd> connect_unix(const std::string& path, const Wait& wait) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(Errc::usage, fmt::format("the path of a unix socket has at most {} bytes", sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return connect_address(reinterpret_cast<const sockaddr*>(&address), sizeof address, AF_UNIX, wait);
}

}  // namespace

bool wait_for(int fd, short events, const Wait& wait) noexcept {
  pollfd watched[2] = {{fd, events, 0}, {wait.interrupt, POLLIN, 0}};
  for (;;) {
    // poll(2) stands still in suspend: looking at the clock again each second keeps the deadline on CLOCK_BOOTTIME.
    const auto left = std::clamp<Clock::duration>(wait.until - Clock::now(), Clock::duration::zero(), std::chrono::seconds{1});
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout{seconds.count(), (left - seconds).count()};
    const int ready = ::ppoll(watched, 2, &timeout, nullptr);
    if (ready > 0 && watched[0].revents != 0) return true;
    if (ready > 0 && watched[1].revents != 0) return false;
    if (ready <= 0 && wait.over()) return false;
  }
}

Result<Fd> connect_to(const Endpoint& at, Duration silence, const Wait& wait) {
  const auto named = [&](Error e) { return fail(e.code, fmt::format("cannot connect to {}: {}", at.text(), e.message)); };
  if (!at.socket.empty()) {
    auto fd = connect_unix(at.socket, wait);
    if (!fd) return named(fd.error());
    return fd;
  }
  auto addresses = look_up(at);
  if (!addresses) return fail(std::move(addresses.error()));
  long long left = 0;
  for (const addrinfo* a = addresses->get(); a; a = a->ai_next) ++left;
  Error last{Errc::unavailable, "no address"};
  for (const addrinfo* a = addresses->get(); a; a = a->ai_next, --left) {
    const auto now = Clock::now();  // an address that is silent must not use up the time of the others
    auto fd = connect_address(a->ai_addr, a->ai_addrlen, a->ai_family, {now + (wait.until - now) / left, wait.interrupt});
    if (fd) {
      tune(fd->get(), silence);
      return fd;
    }
    last = fd.error();
  }
  return named(last);
}

}  // namespace dlock::redis
