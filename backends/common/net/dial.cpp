// SPDX-License-Identifier: Apache-2.0
#include "common/net/dial.hpp"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dlock {
namespace {

constexpr Duration glance = std::chrono::milliseconds{10};

void set(int fd, int level, int option, int value) noexcept {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// Makes the kernel notice a peer that has vanished, after `silence` with data in flight, or after
// 30 s on an idle connection.
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

// Converts the errno of connect(2) or SO_ERROR.
Error error_of(int error) {
  // Only a unix socket reports EAGAIN.
  if (error == EAGAIN) return {Errc::unavailable, "its queue of connections is full"};
  return {error == EACCES ? Errc::denied : Errc::unavailable, std::strerror(error)};
}

Fd new_socket(int family) noexcept {
  return Fd{::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
}

}  // namespace

Dial::Dial(Endpoint at, Duration silence, Deadline until, std::size_t first)
    : at_(std::move(at)), silence_(silence), until_(until), patience_(until), first_(first) {
  if (at_.socket.empty()) name_.emplace(at_.host, at_.port, until);
}

int Dial::fd() const noexcept {
  if (name_) return name_->fd();
  return begun_.empty() ? -1 : begun_.back().get();
}
short Dial::events() const noexcept { return name_ ? POLLIN : POLLOUT; }

Result<Fd> Dial::step(Deadline now) {
  if (name_) {
    auto answer = name_->answer();
    patience_ = name_->patience();
    if (!answer) return Fd{};
    if (!*answer) return fail(std::move(answer->error()));
    addresses_ = std::move(**answer);
    std::rotate(addresses_.begin(),
                addresses_.begin() + static_cast<std::ptrdiff_t>(first_ % addresses_.size()),
                addresses_.end());
    name_.reset();
  } else if (!at_.socket.empty() && !std::exchange(tried_, true)) {
    TRY_VOID(begin_unix());
  }
  for (;;) {
    if (auto fd = connected()) return std::move(*fd);
    const bool more = next_ < addresses_.size();
    if (more && (begun_.empty() || now >= next_at_)) {
      begin(addresses_[next_].get(), addresses_[next_].size, addresses_[next_].bytes.ss_family);
      ++next_;
      next_at_ = later(now, silence_before_next);
      continue;
    }
    if (!begun_.empty() && now < until_) {
      // The caller polls only the last socket, so look at the others every 10 ms.
      patience_ = std::min(until_, begun_.size() > 1 ? later(now, glance) : until_);
      if (more) patience_ = std::min(patience_, next_at_);
      return Fd{};
    }
    if (!begun_.empty()) refused({Errc::unavailable, "no answer in time"});
    return fail(last_.code, "cannot connect to {}: {}", at_.text(), last_.message);
  }
}

// Keeps the error to report. A refusal explains more than the silence of another address.
void Dial::refused(Error why) {
  if (last_.code != Errc::denied) last_ = std::move(why);
}

// Returns the first socket that is connected, and closes sockets that have failed.
std::optional<Fd> Dial::connected() {
  for (auto at = begun_.begin(); at != begun_.end();) {
    pollfd watched{at->get(), POLLOUT, 0};
    if (::poll(&watched, 1, 0) <= 0) {
      ++at;
      continue;
    }
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(at->get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0) {
      Fd fd = std::move(*at);
      begun_.clear();
      if (at_.socket.empty()) tune(fd.get(), silence_);
      return fd;
    }
    refused(error_of(error));
    at = begun_.erase(at);
  }
  return std::nullopt;
}

void Dial::begin(const sockaddr* address, socklen_t size, int family) {
  Fd fd = new_socket(family);
  if (!fd || (::connect(fd.get(), address, size) != 0 && errno != EINPROGRESS)) {
    refused(error_of(errno));
    return;
  }
  begun_.push_back(std::move(fd));
}

Result<void> Dial::begin_unix() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (at_.socket.size() >= sizeof address.sun_path)
    return fail(Errc::usage, "cannot connect to {}: the path of a unix socket has at most {} bytes",
                at_.text(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, at_.socket.c_str(), at_.socket.size() + 1);
  begin(reinterpret_cast<const sockaddr*>(&address), sizeof address, AF_UNIX);
  return {};
}

}  // namespace dlock
