// SPDX-License-Identifier: Apache-2.0
// The bytes of one connection to a server: dialled, with TLS or without, commands in, replies out,
// in the order of the commands. Nothing here waits.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "redis/wire/options.hpp"
#include "redis/wire/reply.hpp"
#include "redis/wire/socket.hpp"
#include "redis/wire/tls.hpp"
#include "util/fd.hpp"

namespace dlock::redis {

class Connection {
 public:
  // Errc::unavailable: no server there. Errc::denied: TLS. `silence`: how long sent data may stay
  // unacknowledged (TCP_USER_TIMEOUT). Call step_open() until it returns true, whenever
  // poll_events() happen on poll_fd(), and at poll_until() at the latest.
  Connection(const Endpoint&, const TlsContext* tls, Duration silence, Deadline until);
  Result<bool> step_open(Deadline now);
  bool dialling() const noexcept { return dial_.has_value(); }  // not connected; TLS comes then
  int poll_fd() const noexcept { return dial_ ? dial_->fd() : fd_.get(); }
  short poll_events() const noexcept;
  Deadline poll_until() const noexcept { return dial_ ? dial_->patience() : no_deadline; }

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void add(std::span<const std::string_view> command);  // into the buffer
  // Sends what the socket takes now; the rest goes with the next call. Errc::unavailable: the
  // connection is broken; some of it may have arrived.
  Result<void> push();
  bool unsent() const noexcept { return !plain_.empty() || !wire_.empty(); }
  // The next reply that has arrived. Errc::unavailable: the connection is broken. Errc::protocol:
  // the peer does not speak RESP. In both cases the connection is useless afterwards.
  Result<std::optional<Reply>> receive();

  // Closes at once and discards unsent data, so that a request we gave up on is not sent later.
  void abandon() noexcept;

  bool heard() const noexcept { return heard_; }  // any byte

 private:
  Result<bool> step_tls();
  Result<void> encrypt();
  Result<bool> read_wire(std::string& to);  // false: nothing there now
  Error last_words(Error);

  std::optional<Dial> dial_;  // until it is connected
  const TlsContext* context_ = nullptr;
  std::string host_;
  bool open_ = false, heard_ = false;
  Fd fd_;
  std::string where_;
  std::string plain_;  // commands not yet encrypted or sent
  std::string wire_;   // bytes to send
  ReplyReader reader_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace dlock::redis
