// SPDX-License-Identifier: Apache-2.0
// Asks several servers at once, so that a silent one delays none of the others.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include "redis/wire/connection.hpp"

namespace dlock::redis {

// The commands on a connection, and the meaning of the replies.
class Dialogue {
 public:
  virtual ~Dialogue() = default;
  virtual void begin(Connection&) = 0;  // puts the first commands into its buffer
  // Takes the next reply, and may put more commands into the buffer. True: that was all.
  virtual Result<bool> hear(Reply, Connection&) = 0;
};

// A Dialogue with one server. Nothing here waits.
class Talk {
 public:
  // `silence`: as of Connection::open. Both outlive this.
  Talk(Endpoint at, const TlsContext* tls, Duration silence)
      : at_(std::move(at)), tls_(tls), silence_(silence) {}

  const Endpoint& at() const noexcept { return at_; }
  // Begins a dialogue, which outlives it: on the connection of the last one if that is open, else
  // on a new one.
  void begin(Dialogue&, Deadline until);
  void advance();  // takes what has arrived
  bool begun() const noexcept { return dialogue_ != nullptr; }
  bool over() const noexcept { return dialogue_ && outcome_; }
  // when it is over; an error names the server
  const Result<void>& outcome() const noexcept { return *outcome_; }
  // Nothing more will be read from it. Closes the connection if a reply is outstanding.
  void end();
  bool connected() const noexcept { return connection_ != nullptr; }

  int poll_fd() const noexcept {
    return begun() && !over() && connection_ ? connection_->poll_fd() : -1;
  }
  short poll_events() const noexcept { return connection_ ? connection_->poll_events() : short{0}; }
  Deadline poll_until() const noexcept {
    return connection_ ? std::min(until_, connection_->poll_until()) : until_;
  }

 private:
  Result<bool> step();
  void dial();
  void finish(Result<void>);

  const Endpoint at_;
  const TlsContext* tls_;
  const Duration silence_;
  std::unique_ptr<Connection> connection_;
  // the connection had a reply before; the first commands are in its buffer
  bool used_ = false, spoken_ = false;
  Dialogue* dialogue_ = nullptr;
  Deadline until_{};
  std::optional<Result<void>> outcome_;
};

// Continues the begun ones until `decided` (called whenever one is over), all are over, or the wait
// is. `next` begins one more and returns whether it did: called at the start, whenever one is over,
// and whenever `stagger` has passed since.
void converse(std::span<Talk* const>, Wait, Duration stagger, const std::function<bool()>& next,
              const std::function<bool()>& decided);

}  // namespace dlock::redis
