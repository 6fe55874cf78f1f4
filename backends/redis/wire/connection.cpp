// SPDX-License-Identifier: Apache-2.0
#include "redis/wire/connection.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include "redis/wire/socket.hpp"

namespace dlock::redis {

Connection::Connection(const Endpoint& at, const TlsContext* tls, Duration silence, Deadline until)
    : dial_(std::in_place, at, silence, until), context_(tls), host_(at.host), where_(at.text()) {}

Result<bool> Connection::step_open(Deadline now) {
  if (open_) return true;
  if (dial_) {
    TRY(fd, dial_->step(now));
    if (!fd) return false;
    fd_ = std::move(fd);
    dial_.reset();
    if (context_) tls_ = std::make_unique<Tls>(*context_, host_);
  }
  if (!tls_) return open_ = true;
  auto done = step_tls();
  if (!done)
    return fail(done.error().code,
                fmt::format("cannot connect to {}: {}", where_, done.error().message));
  return open_ = *done;
}

Result<bool> Connection::step_tls() {
  std::string received;
  TRY_VOID(read_wire(received));
  const auto done = tls_->handshake(received, wire_);
  const auto sent = push();  // also the alert with the reason for the server
  if (!done) return fail(done.error());
  if (!sent) return fail(sent.error());
  return *done && wire_.empty();
}

short Connection::poll_events() const noexcept {
  if (dial_) return dial_->events();
  return static_cast<short>(unsent() ? POLLIN | POLLOUT : POLLIN);
}

void Connection::add(std::span<const std::string_view> command) { append_command(plain_, command); }

Result<void> Connection::encrypt() {
  if (tls_) TRY_VOID(tls_->encrypt(plain_, wire_));
  else wire_ += plain_;
  plain_.clear();
  return {};
}

Result<void> Connection::push() {
  if (!plain_.empty()) TRY_VOID(encrypt());
  std::size_t sent = 0;
  while (sent < wire_.size()) {
    const ssize_t n = ::send(fd_.get(), wire_.data() + sent, wire_.size() - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EAGAIN) break;
    if (errno == EINTR) continue;
    Error e{Errc::unavailable, fmt::format("connection lost: {}", std::strerror(errno))};
    return fail(tls_ && open_ ? last_words(std::move(e)) : std::move(e));
  }
  wire_.erase(0, sent);
  return {};
}

// A server that refuses our certificate sends an alert and resets the connection: the alert is a
// better reason than the reset.
Error Connection::last_words(Error e) {
  std::string received, plain;
  while (read_wire(received).value_or(false)) {}
  const auto said = tls_->decrypt(received, plain, wire_);
  return said ? e : said.error();
}

Result<bool> Connection::read_wire(std::string& to) {
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (n > 0) {
      heard_ = true;
      to.append(buffer, static_cast<std::size_t>(n));
      return true;
    }
    if (n == 0) return fail(Errc::unavailable, "the server closed the connection");
    if (errno == EAGAIN) return false;
    if (errno != EINTR)
      return fail(Errc::unavailable, fmt::format("connection lost: {}", std::strerror(errno)));
  }
}

Result<std::optional<Reply>> Connection::receive() {
  for (std::string received;; received.clear()) {
    auto reply = reader_.next();
    if (!reply || *reply) return reply;
    const auto more = read_wire(received);
    if (!more) return fail(tls_ ? last_words(more.error()) : more.error());
    if (!*more) return std::optional<Reply>{};
    if (!tls_) {
      TRY_VOID(reader_.feed(received));
      continue;
    }
    std::string plain;
    const auto open = tls_->decrypt(received, plain, wire_);
    if (!wire_.empty()) TRY_VOID(push());
    if (!open) return fail(open.error());
    TRY_VOID(reader_.feed(plain));
    if (!*open && plain.empty()) return fail(Errc::unavailable, "the server closed the connection");
  }
}

void Connection::abandon() noexcept {
  const linger at_once{1, 0};  // RST instead of FIN; unsent data is dropped
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd_.reset();
}

}  // namespace dlock::redis
