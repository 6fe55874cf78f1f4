// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/socket.h>
#include <optional>
#include <vector>
#include "common/exchange.hpp"
#include "common/lookup.hpp"
#include "common/url_items.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "util/fd.hpp"

namespace dlock {

// After which the next address, or server, is tried instead of a silent one (RFC 8305).
inline constexpr Duration silence_before_next = std::chrono::milliseconds{250};

// Connects without waiting, to all addresses of the host: to the next one when one has failed, or
// has been silent for a moment; the first that answers is used. The name is looked up anew. The
// socket is non-blocking, close-on-exec; TCP_NODELAY, keepalive, TCP_USER_TIMEOUT (`silence`).
class Dial {
 public:
  // `first`: which of the addresses is tried first; the count begins again behind the last one.
  Dial(Endpoint at, Duration silence, Deadline until, std::size_t first = 0);

  // The connected socket; nothing: not yet, call again when events() happen on fd(), or at
  // patience() at the latest. Errc::unavailable, Errc::denied, Errc::usage: none of the addresses.
  Result<Fd> step(Deadline now);
  // The connection is of no use: call step() for one to the next address.
  void refused(Error why);
  std::size_t untried() const noexcept { return addresses_.size() - next_; }
  int fd() const noexcept;
  short events() const noexcept;
  Deadline patience() const noexcept { return patience_; }

 private:
  Result<void> begin_unix();
  std::optional<Fd> connected();
  void begin(const sockaddr*, socklen_t, int family);

  const Endpoint at_;
  const Duration silence_;
  const Deadline until_;
  Deadline patience_, next_at_{};
  std::optional<Lookup> name_;
  Addresses addresses_;
  const std::size_t first_;
  std::size_t next_ = 0;  // of the addresses
  bool tried_ = false;    // the unix socket
  std::vector<Fd> begun_;
  Error last_{Errc::unavailable, "no address"};
};

}  // namespace dlock
