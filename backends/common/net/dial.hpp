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

// If an address or a server is silent for this long, dlock tries the next one (RFC 8305).
inline constexpr Duration silence_before_next = std::chrono::milliseconds{250};

// Connects to a host without blocking. It tries the next address when an address has failed or been
// silent for a moment, and uses the first address that connects. Each Dial looks the name up again.
// The socket is non-blocking and close-on-exec, with TCP_NODELAY, keepalive and TCP_USER_TIMEOUT,
// which is set to `silence`.
class Dial {
 public:
  // `first`: the index of the address to try first; it wraps around.
  Dial(Endpoint at, Duration silence, Deadline until, std::size_t first = 0);

  // Returns the connected socket. An empty Fd means that there is none yet: call again when
  // events() happen on fd(), and no later than patience(). Errc::unavailable, Errc::denied or
  // Errc::usage: no address can be used.
  Result<Fd> step(Deadline now);
  // Call it if the socket from step() is useless: the next step() then tries the next address.
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
  std::size_t next_ = 0;  // the index of the next address
  bool tried_ = false;    // whether the unix socket was tried
  std::vector<Fd> begun_;
  Error last_{Errc::unavailable, "no address"};
};

}  // namespace dlock
