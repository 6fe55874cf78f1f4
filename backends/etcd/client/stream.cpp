// SPDX-License-Identifier: Apache-2.0
#include "etcd/client/stream.hpp"
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <cerrno>
#include <cstring>
#include "common/lookup.hpp"

namespace dlock::etcd {
namespace {

// A member that vanished is noticed on an idle connection after 30 s, too: that of a watch.
void tune(int fd) noexcept {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Result<Fd> connect_to(const Address& address, Wait wait) {
  Fd fd{::socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!fd) return fail(errno == EMFILE ? Errc::exhausted : Errc::unavailable, std::strerror(errno));
  if (::connect(fd.get(), address.get(), address.size) != 0 && errno != EINPROGRESS)
    return fail(Errc::unavailable, std::strerror(errno));
  if (!wait_for(fd.get(), POLLOUT, wait)) return fail(Errc::unavailable, "no answer in time");
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return fail(Errc::unavailable, std::strerror(error));
  tune(fd.get());
  return fd;
}

}  // namespace

Result<std::unique_ptr<Stream>> Stream::open(const Url::Host& at, const TlsContext& tls,
                                             Wait wait) {
  TRY(addresses, look_up(at.name, at.port.value_or(0), wait.until));
  Error last{Errc::unavailable, "no address"};
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    // the silent one of several leaves time for the others
    const auto left = (wait.until - Clock::now()) / static_cast<int>(addresses.size() - i);
    auto fd = connect_to(addresses[i], {Clock::now() + left, wait.interrupt_fd});
    if (!fd) {
      last = std::move(fd.error());
      continue;
    }
    std::unique_ptr<Stream> made{new Stream};
    made->fd_ = std::move(*fd);
    if (tls) {
      made->tls_ = std::make_unique<Tls>(tls, at.name);
      TRY_VOID(made->shake_hands(wait));
    }
    return made;
  }
  return fail(std::move(last));
}

Result<void> Stream::shake_hands(Wait wait) {
  for (std::string received;;) {
    std::string out;
    const auto done = tls_->handshake(received, out);
    auto sent = push(std::move(out), wait);
    if (!done) return fail(done.error());
    if (!sent) return fail(Errc::unavailable, "TLS handshake: " + sent.error().message);
    if (*done) return {};
    if (!wait_for(fd_.get(), POLLIN, wait))
      return fail(Errc::unavailable, "TLS handshake: no answer in time");
    TRY(more, take());
    received = std::move(more);
  }
}

Result<void> Stream::push(std::string wire, Wait wait) {
  for (std::string_view rest = wire; !rest.empty();) {
    const ssize_t n = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n >= 0) rest.remove_prefix(static_cast<std::size_t>(n));
    else if (errno == EAGAIN && !wait_for(fd_.get(), POLLOUT, wait))
      return fail(Errc::timed_out, "not all could be sent in time");
    else if (errno != EAGAIN && errno != EINTR)
      return fail(Errc::unavailable, std::strerror(errno));
  }
  return {};
}

Result<std::string> Stream::take() {
  std::string block(16384, '\0');
  const ssize_t n = ::recv(fd_.get(), block.data(), block.size(), 0);
  if (n == 0) return fail(Errc::unavailable, "the server has closed the connection");
  if (n < 0 && errno != EAGAIN && errno != EINTR)
    return fail(Errc::unavailable, std::strerror(errno));
  block.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return block;
}

Result<void> Stream::send(std::string_view bytes, Wait wait) {
  if (!tls_) return push(std::string{bytes}, wait);
  std::string wire;
  TRY_VOID(tls_->encrypt(bytes, wire));
  return push(std::move(wire), wait);
}

Result<bool> Stream::receive(std::string& to, Wait wait) {
  for (;;) {
    TRY(received, take());
    if (!tls_ && !received.empty()) {
      to += received;
      return true;
    }
    if (tls_) {
      const std::size_t before = to.size();
      std::string out;
      TRY(open, tls_->decrypt(received, to, out));
      TRY_VOID(push(std::move(out), wait));
      if (to.size() > before) return true;
      if (!open) return fail(Errc::unavailable, "the server has ended the connection");
      if (!received.empty()) continue;
    }
    if (!wait_for(fd_.get(), POLLIN, wait)) return false;
  }
}

}  // namespace dlock::etcd
