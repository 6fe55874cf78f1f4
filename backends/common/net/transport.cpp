// SPDX-License-Identifier: Apache-2.0
#include "common/net/transport.hpp"
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <cerrno>
#include <cstring>

namespace dlock {

Result<bool> Transport::step_open(Deadline now) {
  while (!open_) {
    if (!fd_) {
      TRY(fd, dial_.step(now));
      if (!fd) return false;
      fd_ = std::move(fd);
      received_ = false;
      if (context_) tls_ = std::make_unique<Tls>(*context_, at_.host);
      // If this address is silent, the others must have time left.
      const auto rest = static_cast<int>(dial_.untried());
      shaken_until_ = rest == 0 ? no_deadline : now + (until_ - now) / (rest + 1);
      heard_until_ = rest == 0 ? no_deadline : later(now, silence_before_next);
    }
    auto done = tls_ ? step_tls(now) : Result<bool>{true};
    if (done && !*done) return false;
    if (done) open_ = true;
    else next_address(std::move(done.error()));
  }
  return true;
}

bool Transport::leave_silent(Deadline now) {
  if (!open_ || received_ || now < heard_until_) return false;
  char byte = 0;  // a byte that came while nobody read
  if (::recv(fd_.get(), &byte, sizeof byte, MSG_PEEK) > 0) return false;
  next_address({Errc::unavailable, "no answer in time"});
  return true;
}

void Transport::next_address(Error why) {
  dial_.refused(std::move(why));
  fd_.reset();
  plain_.clear();
  wire_.clear();
  open_ = false;
}

Result<bool> Transport::step_tls(Deadline now) {
  std::string received;
  if (auto open = read_wire(received); !open) {
    if (!received_) open.error().message += "; does it speak TLS on this port?";
    return open;
  }
  const auto done = tls_->handshake(received, wire_);
  const auto sent = push();  // after a failure this sends the alert, which gives the reason
  if (!done) return fail(done.error());
  if (!sent) return fail(sent.error());
  if (*done && wire_.empty()) return true;
  if (now < (received_ ? shaken_until_ : heard_until_)) return false;
  return fail(Errc::unavailable, "no TLS handshake in time");
}

short Transport::poll_events() const noexcept {
  if (!fd_) return dial_.events();
  return static_cast<short>(unsent() ? POLLIN | POLLOUT : POLLIN);
}

Deadline Transport::poll_until() const noexcept {
  if (!fd_) return dial_.patience();
  if (!received_) return heard_until_;
  return open_ ? no_deadline : shaken_until_;
}

Result<void> Transport::encrypt() {
  if (tls_) TRY_VOID(tls_->encrypt(plain_, wire_));
  else wire_ += plain_;
  plain_.clear();
  return {};
}

Result<void> Transport::push() {
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
    return fail(tls_ && open_ ? with_alert(std::move(e)) : std::move(e));
  }
  wire_.erase(0, sent);
  return {};
}

// A server that refuses our certificate sends an alert and resets the connection. The alert
// explains more than the reset.
Error Transport::with_alert(Error e) {
  std::string received, plain;
  while (read_wire(received).value_or(false)) {}
  const auto said = tls_->decrypt(received, plain, wire_);
  return said ? e : said.error();
}

Result<bool> Transport::read_wire(std::string& to) {
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (n > 0) {
      received_ = true;
      to.append(buffer, static_cast<std::size_t>(n));
      return true;
    }
    if (n == 0) return fail(Errc::unavailable, "the server closed the connection");
    if (errno == EAGAIN) return false;
    if (errno != EINTR) return fail(Errc::unavailable, "connection lost: {}", std::strerror(errno));
  }
}

Result<bool> Transport::receive(std::string& to) {
  if (unsent()) TRY_VOID(push());
  if (!tls_) return read_wire(to);
  const std::size_t before = to.size();
  for (std::string received; to.size() == before; received.clear()) {
    const auto more = read_wire(received);
    if (!more) return fail(with_alert(more.error()));
    if (!*more) return false;
    const auto open = tls_->decrypt(received, to, wire_);
    if (!wire_.empty()) TRY_VOID(push());
    if (!open) return fail(open.error());
    if (!*open && to.size() == before)
      return fail(Errc::unavailable, "the server closed the connection");
  }
  return true;
}

void Transport::abandon() noexcept {
  const linger at_once{1, 0};  // sends RST instead of FIN, and drops unsent data
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd_.reset();
}

}  // namespace dlock
