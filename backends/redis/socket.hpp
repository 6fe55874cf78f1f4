// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/clock.hpp"
#include "core/error.hpp"
#include "redis/endpoint.hpp"
#include "util/fd.hpp"

namespace dlock::redis {

struct Wait;

// Blocks until `events` happen on `fd`, the wait is over or it is interrupted. True: they happened (or the descriptor is broken, which the
// next read or write will say).
bool wait_for(int fd, short events, const Wait&) noexcept;

// A connected, non-blocking, close-on-exec socket; TCP_NODELAY, keepalive, TCP_USER_TIMEOUT. Tries every address of the host.
Result<Fd> connect_to(const Endpoint&, Duration silence, const Wait&);

}  // namespace dlock::redis
