// SPDX-License-Identifier: Apache-2.0
// Requests to several servers at once, so that a silent server does not delay the others.
#pragma once
#include <functional>
#include "redis/wire/connection.hpp"

namespace dlock::redis {

// A request to one server, over a connection that stays open for later requests.
class InFlight {
 public:
  InFlight(Connection::Shared shared, const Endpoint& at, Connection::Greeting greeting)
      : options_(shared.options), line_(shared, at, greeting) {}
  virtual ~InFlight() = default;

  const Endpoint& at() const noexcept { return line_.at(); }
  void begin(Deadline until);
  void go_on();  // reads what has arrived
  bool under_way() const noexcept { return until_ && !outcome_; }
  bool over() const noexcept { return outcome_.has_value(); }
  // An error names the server. A missing reply is an error, too.
  Result<void> outcome() const;
  void end();  // gives up the request; if it has no outcome yet, closes the connection
  Connection& line() noexcept { return line_; }

 protected:
  virtual Result<void> send() = 0;  // sends the first commands
  // Handles the `n`th reply, counted from 0. It may send more commands. Returns whether the request
  // is done.
  virtual Result<bool> on_reply(std::size_t n, Reply) = 0;

  const Options& options_;
  Connection line_;

 private:
  Result<bool> step(Deadline now);

  bool answered_ = false;               // whether a request got its reply over this connection
  std::optional<std::size_t> replies_;  // how many have come to the request; nullopt: not sent yet
  std::optional<Deadline> until_;       // set when the request has begun
  std::optional<Result<void>> outcome_;
};

// Begins the requests one after the other: the next one when a request is done, or when `stagger`
// has passed since the last one began. Returns when `decided` returns true (it is called whenever a
// request is done), when all requests are done, or when the wait is over.
void run_all(const std::vector<InFlight*>&, Wait, Duration stagger,
             const std::function<bool()>& decided);

}  // namespace dlock::redis
