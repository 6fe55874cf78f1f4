// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/socket.hpp"
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
#include <utility>
#include "redis/wire/connection.hpp"
#include "util/wait.hpp"

namespace dlock::redis {
namespace {

void set(int fd, int level, int option, int value) noexcept {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// A peer that vanished is noticed: with data on its way after `silence`, on an idle connection
// after 30 s.
void tune(int fd, Duration silence) noexcept {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count();
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<int>(std::clamp<long long>(ms, 100, 3'600'000)));
}

// The error of connect(2) or SO_ERROR as text.
Error refused(int error) {
  // a unix socket
  if (error == EAGAIN) return {Errc::unavailable, "its queue of connections is full"};
  return {error == EACCES ? Errc::denied : Errc::unavailable, std::strerror(error)};
}

Fd new_socket(int family) noexcept {
  return Fd{::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
}

}  // namespace

bool wait_for(int fd, short events, const Wait& wait) noexcept {
  pollfd watched[] = {{fd, events, 0}, {wait.interrupt, POLLIN, 0}};
  return wait_until(watched, wait.until) > 0 && watched[0].revents != 0;
}

Result<Addresses> look_up(const Endpoint& at) {
  if (!at.socket.empty()) return Addresses{};
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
  if (error != 0)
    return fail(Errc::unavailable,
                fmt::format("cannot find host {}: {}", at.host, ::gai_strerror(error)));
  return Addresses{found, [](const addrinfo* a) { ::freeaddrinfo(const_cast<addrinfo*>(a)); }};
}

Dial::Dial(Endpoint at, Addresses addresses, Duration silence, Deadline until)
    : at_(std::move(at)),
      addresses_(std::move(addresses)),
      silence_(silence),
      until_(until),
      next_(addresses_.get()) {
  for (const addrinfo* a = next_; a; a = a->ai_next) ++left_;
}

Result<Fd> Dial::step() {
  if (fd_) {
    pollfd watched{fd_.get(), POLLOUT, 0};
    if (::poll(&watched, 1, 0) <= 0) {
      if (Clock::now() < patience_) return Fd{};
      last_ = {Errc::unavailable, "no answer in time"};
      fd_.reset();
    } else {
      int error = 0;
      socklen_t length = sizeof error;
      ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error == 0) {
        if (at_.socket.empty()) tune(fd_.get(), silence_);
        return std::move(fd_);
      }
      last_ = refused(error);
      fd_.reset();
    }
  }
  return connect_next();
}

Result<Fd> Dial::connect_next() {
  if (!at_.socket.empty() && !std::exchange(tried_, true)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (at_.socket.size() >= sizeof address.sun_path)
      return fail(
          Errc::usage,
          fmt::format("cannot connect to {}: the path of a unix socket has at most {} bytes",
                      at_.text(), sizeof address.sun_path - 1));
    std::memcpy(address.sun_path, at_.socket.c_str(), at_.socket.size() + 1);
    patience_ = until_;
    fd_ = new_socket(AF_UNIX);
    const bool started = fd_ && ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                                          sizeof address) == 0;
    if (started) return step();
    last_ = refused(errno);
  }
  for (; next_; next_ = next_->ai_next, --left_) {
    const auto now = Clock::now();  // a silent address must not use up the time of the others
    patience_ = now + (until_ - now) / left_;
    fd_ = new_socket(next_->ai_family);
    if (fd_ &&
        (::connect(fd_.get(), next_->ai_addr, next_->ai_addrlen) == 0 || errno == EINPROGRESS)) {
      next_ = next_->ai_next;
      --left_;
      return Fd{};
    }
    last_ = refused(errno);
    fd_.reset();
  }
  fd_.reset();
  return fail(last_.code, fmt::format("cannot connect to {}: {}", at_.text(), last_.message));
}

}  // namespace dlock::redis
