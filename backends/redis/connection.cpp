// SPDX-License-Identifier: Apache-2.0
#include "redis/connection.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <cerrno>
#include <cstring>
#include "redis/socket.hpp"

namespace dlock::redis {

std::string Endpoint::text() const {
  if (!socket.empty()) return socket;
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

bool Wait::interrupted() const noexcept {
  pollfd watched{interrupt, POLLIN, 0};
  return interrupt >= 0 && ::poll(&watched, 1, 0) > 0;
}

Result<std::unique_ptr<Connection>> Connection::open(const Endpoint& at, const TlsContext* tls, Duration silence, Wait wait) {
  auto fd = connect_to(at, silence, wait);
  if (!fd) return fail(std::move(fd.error()));
  std::unique_ptr<Connection> made{new Connection{std::move(*fd), at.text()}};
  if (tls)
    if (auto ok = made->secure(*tls, at.host, wait); !ok)
      return fail(ok.error().code, fmt::format("cannot connect to {}: {}", at.text(), ok.error().message));
  return made;
}

Connection::~Connection() = default;

Result<void> Connection::secure(const TlsContext& context, const std::string& host, Wait wait) {
  tls_ = std::make_unique<Tls>(context, host);
  for (std::string received;; received.clear()) {
    if (auto more = read_wire(received); !more) return fail(std::move(more.error()));
    const auto done = tls_->handshake(received, wire_);
    const auto sent = send_wire(wait);
    if (!done) return fail(done.error());
    if (!sent) return sent;
    if (*done) return {};
    if (!wait_for(fd_.get(), POLLIN, wait))
      return fail(Errc::unavailable, wait.interrupted() ? "interrupted" : "no TLS handshake in time");
  }
}

void Connection::add(std::span<const std::string_view> command) { append_command(plain_, command); }

Result<void> Connection::flush(Wait wait) {
  if (tls_) {
    if (auto ok = tls_->encrypt(plain_, wire_); !ok) return ok;
  } else {
    wire_ += plain_;
  }
  plain_.clear();
  auto sent = send_wire(wait);
  if (!sent && tls_) return fail(last_words(std::move(sent.error())));
  return sent;
}

// A server that refuses our certificate says so and resets the connection: what it said is a better reason than the reset.
Error Connection::last_words(Error e) {
  std::string received, plain;
  while (read_wire(received).value_or(false)) {}
  const auto said = tls_->decrypt(received, plain, wire_);
  return said ? e : said.error();
}

Result<void> Connection::send_wire(Wait wait) {
  std::size_t sent = 0;
  while (sent < wire_.size()) {
    const ssize_t n = ::send(fd_.get(), wire_.data() + sent, wire_.size() - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      if (!wait_for(fd_.get(), POLLOUT, {wait.until})) return fail(Errc::timed_out, "the server takes no data");
    } else if (errno != EINTR) {
      return fail(Errc::unavailable, fmt::format("connection lost: {}", std::strerror(errno)));
    }
  }
  wire_.clear();
  return {};
}

Result<bool> Connection::read_wire(std::string& to) {
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (n > 0) {
      to.append(buffer, static_cast<std::size_t>(n));
      return true;
    }
    if (n == 0) return fail(Errc::unavailable, "the server closed the connection");
    if (errno == EAGAIN) return false;
    if (errno != EINTR) return fail(Errc::unavailable, fmt::format("connection lost: {}", std::strerror(errno)));
  }
}

Result<std::optional<Reply>> Connection::receive(Wait wait) {
  for (std::string received;; received.clear()) {
    auto reply = reader_.next();
    if (!reply || *reply) return reply;
    if (!wait_for(fd_.get(), POLLIN, wait)) return std::optional<Reply>{};
    if (auto more = read_wire(received); !more) return fail(tls_ ? last_words(std::move(more.error())) : std::move(more.error()));
    if (!tls_) {
      if (auto ok = reader_.feed(received); !ok) return fail(std::move(ok.error()));
      continue;
    }
    std::string plain;
    const auto open = tls_->decrypt(received, plain, wire_);
    if (!wire_.empty())
      if (auto ok = send_wire(wait); !ok) return fail(std::move(ok.error()));
    if (!open) return fail(open.error());
    if (auto ok = reader_.feed(plain); !ok) return fail(std::move(ok.error()));
    if (!*open && plain.empty()) return fail(Errc::unavailable, "the server closed the connection");
  }
}

void Connection::abandon() noexcept {
  const linger at_once{1, 0};  // RST instead of FIN; unsent data is dropped
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd_.reset();
}

}  // namespace dlock::redis
