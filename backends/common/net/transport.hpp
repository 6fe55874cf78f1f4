// SPDX-License-Identifier: Apache-2.0
// The bytes of one connection to a server, with or without TLS. It tries all addresses of the host.
// Nothing here waits: the caller polls (poll_fd, poll_events, until poll_until).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include "common/net/dial.hpp"
#include "common/net/tls.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "util/fd.hpp"

namespace dlock {

class Transport {
 public:
  // `tls`: null for plain text; it must outlive this object. `silence`: how long sent data may stay
  // unacknowledged (TCP_USER_TIMEOUT). `first`: the index of the address to try first (dial.hpp).
  Transport(const Endpoint& at, const TlsContext* tls, Duration silence, Deadline until,
            std::size_t first = 0)
      : at_(at), context_(tls), until_(until), dial_(at, silence, until, first) {}
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Returns whether the connection is open. Call it until it returns true. If TLS fails or gets no
  // reply, step_open() tries the next address. Errc::unavailable: no server replies. Errc::denied:
  // TLS was refused.
  Result<bool> step_open(Deadline now);
  // If the connection is open, but the server has been silent for a moment and there is another
  // address, leaves this server and returns true. Then call step_open() again, which dials the
  // other address, and send everything again.
  bool leave_silent(Deadline now);
  // Returns whether an address was not tried yet; valid only while the connection is open.
  bool has_other() const noexcept { return dial_.untried() > 0; }
  // Returns whether no address is connected yet. The TLS handshake comes after that.
  bool dialling() const noexcept { return !fd_; }

  void add(std::string_view bytes) { plain_ += bytes; }  // appends to the buffer
  // Sends what the socket accepts now; the next call sends the rest. Errc::unavailable: the
  // connection is broken, and some bytes may have arrived. Errc::denied: TLS was refused.
  Result<void> push();
  bool unsent() const noexcept { return !plain_.empty() || !wire_.empty(); }
  // Appends what has arrived. False: nothing has arrived. Errors as in push().
  Result<bool> receive(std::string& to);
  // Closes at once and discards unsent data, so that a request that timed out is not sent later.
  void abandon() noexcept;

  // Returns whether the server at the current address has sent a byte.
  bool received() const noexcept { return received_; }
  int poll_fd() const noexcept { return fd_ ? fd_.get() : dial_.fd(); }
  short poll_events() const noexcept;
  Deadline poll_until() const noexcept;

 private:
  Result<bool> step_tls(Deadline now);
  Result<void> encrypt();
  Result<bool> read_wire(std::string& to);  // false: there is nothing to read now
  Error with_alert(Error);
  void next_address(Error why);

  const Endpoint at_;
  const TlsContext* const context_;
  const Deadline until_;
  Dial dial_;
  Fd fd_;
  // Deadlines for the handshake and for the server's first byte, if other addresses remain.
  Deadline shaken_until_{}, heard_until_{};
  bool open_ = false, received_ = false;
  std::string plain_;  // bytes that are neither encrypted nor sent yet
  std::string wire_;   // bytes to send, which are encrypted if there is TLS
  std::unique_ptr<Tls> tls_;
};

}  // namespace dlock
