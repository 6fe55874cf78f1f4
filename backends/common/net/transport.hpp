// SPDX-License-Identifier: Apache-2.0
// The bytes of one connection to a server: dialled at all addresses of its host, with TLS or
// without. Nothing here waits; who waits polls (poll_fd, poll_events, until poll_until).
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
  // `tls`: null for none; it outlives this. `silence`: how long sent data may stay unacknowledged
  // (TCP_USER_TIMEOUT). `first`: as of Dial.
  Transport(const Endpoint& at, const TlsContext* tls, Duration silence, Deadline until,
            std::size_t first = 0)
      : at_(at), context_(tls), until_(until), dial_(at, silence, until, first) {}
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // True: it is open. Call it until then. Where TLS fails, or is silent, the next address is tried.
  // Errc::unavailable: no server there. Errc::denied: TLS.
  Result<bool> step_open(Deadline now);
  // The server accepted, has said nothing for a moment, and there is another address. True: call
  // step_open() again, which dials that address, and then repeat what was sent.
  bool leave_silent(Deadline now);
  bool has_other() const noexcept { return dial_.untried() > 0; }  // when open
  bool dialling() const noexcept { return !fd_; }                  // not connected; TLS comes then

  void add(std::string_view bytes) { plain_ += bytes; }  // into the buffer
  // Sends what the socket takes now; the rest goes with the next call. Errc::unavailable: the
  // connection is broken; some of it may have arrived. Errc::denied: refused by TLS.
  Result<void> push();
  bool unsent() const noexcept { return !plain_.empty() || !wire_.empty(); }
  // Appends what has arrived. False: nothing now. Errors as of push().
  Result<bool> receive(std::string& to);
  // Closes at once and discards unsent data, so that a request we gave up on is not sent later.
  void abandon() noexcept;

  bool received() const noexcept { return received_; }  // any byte, from this address
  int poll_fd() const noexcept { return fd_ ? fd_.get() : dial_.fd(); }
  short poll_events() const noexcept;
  Deadline poll_until() const noexcept;

 private:
  Result<bool> step_tls(Deadline now);
  Result<void> encrypt();
  Result<bool> read_wire(std::string& to);  // false: nothing there now
  Error with_alert(Error);
  void next_address(Error why);

  const Endpoint at_;
  const TlsContext* const context_;
  const Deadline until_;
  Dial dial_;
  Fd fd_;
  // while there are other addresses: the handshake, the first word of the server
  Deadline shaken_until_{}, heard_until_{};
  bool open_ = false, received_ = false;
  std::string plain_;  // not yet encrypted or sent
  std::string wire_;   // bytes to send
  std::unique_ptr<Tls> tls_;
};

}  // namespace dlock
