// SPDX-License-Identifier: Apache-2.0
// One connection to a server, without a thread and without a blocking call other than poll(2), so
// that every wait has a deadline on CLOCK_BOOTTIME and can be interrupted. Replies come in the
// order of the commands.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include "core/clock.hpp"
#include "core/error.hpp"
#include "redis/wire/endpoint.hpp"
#include "redis/wire/reply.hpp"
#include "redis/wire/socket.hpp"
#include "redis/wire/tls.hpp"
#include "util/fd.hpp"

namespace dlock::redis {

// How long to wait. `interrupt` readable ends the wait early; it is not read.
struct Wait {
  Deadline until;
  int interrupt = -1;

  bool over() const noexcept { return Clock::now() >= until; }
  bool interrupted() const noexcept;
};

class Connection {
 public:
  // Errc::unavailable: no server there. Errc::denied: TLS. `silence`: how long sent data may stay
  // unacknowledged (TCP_USER_TIMEOUT).
  static Result<std::unique_ptr<Connection>> open(const Endpoint&, const TlsContext* tls,
                                                  Duration silence, Wait);

  // The same without waiting, for several on one poll(2): call `step_open` until it returns true,
  // whenever poll_events() happen on poll_fd(), and at poll_until() at the latest.
  static std::unique_ptr<Connection> start(const Endpoint&, const TlsContext* tls, Duration silence,
                                           Deadline until);
  Result<bool> step_open();
  int poll_fd() const noexcept { return dial_ ? dial_->fd() : fd_.get(); }
  short poll_events() const noexcept;
  Deadline poll_until() const noexcept { return dial_ ? dial_->patience() : no_deadline; }
  // Sends what the socket takes now; the rest goes with the next call. Errors as of flush.
  Result<void> push();

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  void add(std::span<const std::string_view> command);  // into the buffer
  void add(std::initializer_list<std::string_view> command) {
    add(std::span{command.begin(), command.size()});
  }
  // Errc::unavailable: the connection is broken; some of it may have arrived. Errc::timed_out: not
  // all could be sent.
  Result<void> flush(Wait);
  // The next reply; nothing: the wait is over, the reply may still come. Wait{{}}: takes what has
  // arrived, without waiting. Errc::unavailable: the connection is broken. Errc::protocol: the peer
  // does not speak RESP. In both cases the connection is useless afterwards.
  Result<std::optional<Reply>> receive(Wait);

  // Closes at once and discards unsent data, so that a request we gave up on is not sent later.
  void abandon() noexcept;

  const std::string& where() const noexcept { return where_; }
  bool heard() const noexcept { return heard_; }  // any byte

 private:
  Connection() = default;
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
