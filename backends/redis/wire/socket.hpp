// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "redis/wire/endpoint.hpp"
#include "util/fd.hpp"

struct addrinfo;

namespace dlock::redis {

struct Wait;

// Blocks until `events` happen on `fd`, the wait is over or it is interrupted. True: they happened
// (or the descriptor is broken, which the next read or write will report).
bool wait_for(int fd, short events, const Wait&) noexcept;

// The addresses of a host. A name is looked up with getaddrinfo(3), which has no deadline; an
// address is not. Null for a unix socket.
using Addresses = std::shared_ptr<const addrinfo>;
Result<Addresses> look_up(const Endpoint&);

// Connects without waiting, to one address of the host after another. The socket is non-blocking,
// close-on-exec; TCP_NODELAY, keepalive, TCP_USER_TIMEOUT (`silence`).
class Dial {
 public:
  Dial(Endpoint at, Addresses addresses, Duration silence, Deadline until);

  // The connected socket; nothing: not yet, call again when fd() can be written, or at patience()
  // at the latest. Errc::unavailable, Errc::denied, Errc::usage: none of the addresses.
  Result<Fd> step();
  int fd() const noexcept { return fd_.get(); }
  Deadline patience() const noexcept { return patience_; }

 private:
  Result<Fd> connect_next();

  Endpoint at_;
  Addresses addresses_;
  Duration silence_;
  Deadline until_, patience_{};
  const addrinfo* next_;
  long left_ = 0;  // addresses not tried yet
  bool tried_ = false;
  Fd fd_;
  Error last_{Errc::unavailable, "no address"};
};

}  // namespace dlock::redis
