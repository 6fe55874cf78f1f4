// SPDX-License-Identifier: Apache-2.0
// A line to one server, and the commands that it carries.
#pragma once
#include <algorithm>
#include <deque>
#include <initializer_list>
#include "common/net/credentials.hpp"
#include "redis/wire/facts.hpp"
#include "redis/wire/options.hpp"
#include "redis/wire/reply.hpp"

namespace dlock::redis {

// A Lua script on the server. Constant text: keys are in KEYS, data in ARGV, nothing is ever
// inserted into the text.
struct Script {
  std::string_view text;
  std::string_view sha;  // 40 lower-case hex digits, for EVALSHA
};

// How a command is sent.
struct Manner {
  bool by_text = false;       // EVAL instead of EVALSHA, for a server without the script
  bool asking = false;        // behind ASKING: the server is about to get the slot of its keys
  bool alone = false;         // with Command::enough keys
  std::string_view number{};  // before the arguments; empty: none
};

// A command that can be repeated without harm.
struct Command {
  // What becomes of it at a server that is in its restart_grace, and may have lost a lock.
  enum class InGrace {
    sent,      // it grants nothing
    withheld,  // it may grant
    reported,  // it may grant unless its last argument, put behind the others, is "1" and not "0"
  };

  std::string_view what;           // "renew", for messages
  const Script* script = nullptr;  // none: a plain command
  // of the script; plain: keys[0] chooses the server and is not sent
  std::vector<std::string> keys;
  std::vector<std::string> args;  // the script's, or the command with its own
  InGrace in_grace = InGrace::sent;
  // a script that also works with so many of its keys, in a slot that is being moved; 0: with all
  // of them only
  std::size_t enough = 0;
  bool confirmed = false;  // waits for the replicas that ?replicas= wants
};

// Time spans as arguments: whole microseconds, not negative; and for PX and PEXPIRE whole
// milliseconds, rounded up and never 0.
inline std::string micros(Duration d) {
  return std::to_string(std::max<Duration::rep>(0, d.count()));
}
inline std::string millis(Duration d) {
  return std::to_string(
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(d).count()));
}

// A line to one server, as a state machine that never waits: it dials all addresses of the host,
// speaks TLS, logs in, learns the server's facts, and then carries requests, several at a time,
// each with its own deadline. Who waits polls it (poll_fd, poll_events, until poll_until) and calls
// next(). What was sent over a line that closed may have been carried out, or may still be: its
// sender repeats it, if it names an owner that nothing was released under.
class Line {
 public:
  // What all lines of one store share; it outlives them.
  struct Shared {
    const Options& options;
    Credentials& credentials;
    std::uint64_t& requests;  // commands sent so far
  };
  // All of it is one round trip, before any other request. A sentinel gets none: it often has no
  // password of its own, and no databases.
  enum class Greeting { full, none };

  Line(Shared shared, Endpoint at, Greeting greeting = Greeting::full)
      : shared_(shared), at_(std::move(at)), greeting_(greeting) {}

  const Endpoint& at() const noexcept { return at_; }
  bool closed() const noexcept { return state_ == State::closed; }
  bool ready() const noexcept { return state_ == State::ready; }
  // Dialling or greeting: not yet known whether it is usable.
  bool pending() const noexcept { return !closed() && !ready(); }
  bool idle() const noexcept { return awaited_.empty(); }  // no request is under way
  // It answered a request: a failure now may only mean that the server closed it meanwhile.
  bool used() const noexcept { return used_; }
  const ServerFacts& facts() const noexcept { return facts_; }  // when ready
  unsigned credentials() const noexcept { return version_; }    // their version, for the greeting

  // Why it is closed. Errc::unavailable: no server there, or the connection broke. Errc::denied:
  // password, rights, certificate. Errc::usage: no such database. Errc::protocol: not RESP, or no
  // reply to what was sent. Errc::timed_out: a request had no answer in time.
  const Error& why() const noexcept { return why_; }
  Error why_there() const;  // the same, and names the server
  // It closed in the greeting, and had not said a word: perhaps it waits for TLS.
  bool mute() const noexcept { return mute_; }

  // Begins anew. The greeting has until `by`, and `greeting` of its own at least.
  void dial(Deadline by, Duration greeting = {});
  // When ready. It goes out with the next call of push() or next().
  void send(std::span<const std::string_view> command, Deadline answer_by);
  void send(std::initializer_list<std::string_view> command, Deadline answer_by) {
    send(std::span{command.begin(), command.size()}, answer_by);
  }
  // Behind ASKING there are two replies, the second one is the command's. `last`: behind the words,
  // if not empty.
  void send(const Command&, Manner, Deadline answer_by, std::string_view last = {});
  void push();
  // Goes on, as far as that is possible now. The next reply, in the order of the requests; nothing:
  // not yet, or it has closed.
  std::optional<Reply> next(Deadline now);
  // Closes at once and discards unsent data, so that a request we gave up on is not sent later.
  void close(Error why);

  int poll_fd() const noexcept { return connection_ ? connection_->poll_fd() : -1; }
  short poll_events() const noexcept { return connection_ ? connection_->poll_events() : short{0}; }
  Deadline poll_until() const noexcept;  // call next() then at the latest

  // Waits until it is ready, for a reply if a request is under way, or until it closes. Nothing:
  // that, or the wait is over.
  std::optional<Reply> await(Wait);

 private:
  enum class State { closed, dialling, greeting, ready };
  enum class About { request, login, database, facts };
  struct Awaited {
    About about;
    Deadline due;
  };
  Result<std::optional<Reply>> step(Deadline now);
  Result<void> open(Deadline now);
  void greet();
  void put(About, std::span<const std::string_view> command, Deadline due);
  Result<void> understand(About, Reply&);
  Result<void> in_time(Deadline now) const;

  Shared shared_;
  Endpoint at_;
  Greeting greeting_;
  State state_ = State::closed;
  std::unique_ptr<Connection> connection_;
  Deadline until_{};         // dialling and greeting: then it has failed
  Duration own_greeting_{};  // that the greeting has at least
  unsigned version_ = 0;
  bool used_ = false, mute_ = false;
  std::deque<Awaited> awaited_;  // the replies under way, those of the greeting first
  std::string info_;             // of the greeting
  std::optional<Error> login_;   // of the greeting: why it was refused
  ServerFacts facts_;
  Error why_{Errc::unavailable, "not connected"};
};

// Waits for something to happen on one of these lines, or until `until`; then all that were polled
// have to be called. False: interrupted.
bool wait_for_any(std::span<Line* const>, Wait);

}  // namespace dlock::redis
