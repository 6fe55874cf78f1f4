// SPDX-License-Identifier: Apache-2.0
// A connection to one server, and the commands that it carries.
#pragma once
#include <algorithm>
#include <deque>
#include <initializer_list>
#include "common/net/credentials.hpp"
#include "redis/wire/facts.hpp"
#include "redis/wire/options.hpp"
#include "redis/wire/reply.hpp"

namespace dlock::redis {

// A Lua script on the server. Its text is constant: keys are in KEYS and data in ARGV, and nothing
// is inserted into the text.
struct Script {
  std::string_view text;
  std::string_view sha;  // 40 lower-case hex digits, for EVALSHA
};

// How a command is sent.
struct Manner {
  bool by_text = false;       // EVAL instead of EVALSHA, for a server without the script
  bool asking = false;        // send ASKING first: the keys' slot is being moved to this server
  bool alone = false;         // send only the first Command::enough keys
  std::string_view number{};  // the number of the request, sent before the arguments; empty: none
};

// A command that can be repeated without harm.
struct Command {
  // How to treat the command at a server in its grace period: the server may have lost a lock.
  enum class InGrace {
    sent,      // as usual, because it grants nothing
    withheld,  // not sent, because it may grant
    reported,  // sent with the last argument "1" instead of "0", so that it grants nothing
  };

  std::string_view what;           // "renew", for messages
  const Script* script = nullptr;  // null: a plain command
  // The keys of the script. For a plain command keys[0] chooses the server and is not sent.
  std::vector<std::string> keys;
  std::vector<std::string> args;  // the script's arguments, or the words of a plain command
  InGrace in_grace = InGrace::sent;
  // If the slot of the keys is being moved, the script needs only the first `enough` keys; 0: all
  // keys.
  std::size_t enough = 0;
  bool confirmed = false;  // after the reply, wait for as many replicas as ?replicas= demands
};

// Return a duration as an argument. micros(): whole microseconds, never negative. millis(): whole
// milliseconds for PX and PEXPIRE, rounded up and never 0.
inline std::string micros(Duration d) {
  return std::to_string(std::max<Duration::rep>(0, d.count()));
}
inline std::string millis(Duration d) {
  return std::to_string(
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(d).count()));
}

// A connection to one server, as a state machine that never waits. It tries all addresses of the
// host, speaks TLS, logs in, learns the server's facts, and then carries several requests at a
// time, each with its own deadline. The caller waits for poll_events() on poll_fd(), until
// poll_until(), and then calls next(). If the connection closes, a request over it may have been
// carried out, or may still be carried out. The sender may repeat a request if nothing was released
// under the owner that the request names.
class Connection {
 public:
  // What all connections of one store share. It must outlive them.
  struct Shared {
    const Options& options;
    Credentials& credentials;
    std::uint64_t& requests;  // commands sent so far
  };
  // The greeting is one round trip, before any other request. A sentinel gets no greeting, because
  // it often has no password, and has no databases.
  enum class Greeting { full, none };

  Connection(Shared shared, Endpoint at, Greeting greeting = Greeting::full)
      : shared_(shared), at_(std::move(at)), greeting_(greeting) {}

  const Endpoint& at() const noexcept { return at_; }
  bool closed() const noexcept { return state_ == State::closed; }
  bool ready() const noexcept { return state_ == State::ready; }
  // Dialling or greeting: nobody knows yet whether the connection is usable.
  bool pending() const noexcept { return !closed() && !ready(); }
  bool idle() const noexcept { return awaited_.empty(); }  // no request is in flight
  // The server has replied to a request over this connection. If the connection fails later, the
  // server may only have closed it.
  bool used() const noexcept { return used_; }
  const ServerFacts& facts() const noexcept { return facts_; }  // known when ready()
  // Returns the version of the credentials that the greeting used.
  unsigned credentials() const noexcept { return version_; }

  // Returns why it is closed. Errc::unavailable: there is no server, or the connection broke.
  // Errc::denied: password, rights or certificate. Errc::usage: the database does not exist.
  // Errc::protocol: the peer does not speak RESP, or sent a reply without a request.
  // Errc::timed_out: a request got no reply in time.
  const Error& why() const noexcept { return why_; }
  Error why_there() const;  // the same, with the server's name
  // The connection was closed during the greeting, before the server had sent a byte: perhaps the
  // server expects TLS.
  bool mute() const noexcept { return mute_; }

  // Connects again. The connection must be open before `by`. Once it is open, the greeting has time
  // until `by`, but at least `greeting`.
  void dial(Deadline by, Duration greeting = {});
  // Appends a command. The next push() or next() sends it. Call it only when the connection is
  // ready.
  void send(std::span<const std::string_view> command, Deadline answer_by);
  void send(std::initializer_list<std::string_view> command, Deadline answer_by) {
    send(std::span{command.begin(), command.size()}, answer_by);
  }
  // `last` is appended to the arguments, unless it is empty. With Manner::asking there are two
  // replies, and the second is the reply to the command.
  void send(const Command&, Manner, Deadline answer_by, std::string_view last = {});
  void push();
  // Does what is possible now, without waiting. Returns the next reply, in the order of the
  // requests. nullopt: there is none yet, or the connection has closed.
  std::optional<Reply> next(Deadline now);
  // Closes at once and discards unsent data, so that a request that timed out is not sent later.
  void close(Error why);

  int poll_fd() const noexcept { return connection_ ? connection_->poll_fd() : -1; }
  short poll_events() const noexcept { return connection_ ? connection_->poll_events() : short{0}; }
  Deadline poll_until() const noexcept;  // call next() no later than this

  // Waits until the connection is ready or, if a request is in flight, until a reply comes. The
  // wait also ends when the connection closes. nullopt: there is no reply, because the connection
  // is ready or closed, or the wait is over.
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
  Result<void> on_reply(About, Reply&);
  Result<void> in_time(Deadline now) const;

  Shared shared_;
  Endpoint at_;
  Greeting greeting_;
  State state_ = State::closed;
  std::unique_ptr<RespStream> connection_;
  Deadline until_{};         // the end of the time for dialling and greeting
  Duration own_greeting_{};  // the least time for the greeting
  unsigned version_ = 0;
  bool used_ = false, mute_ = false;
  std::deque<Awaited> awaited_;  // outstanding replies, those of the greeting first
  std::string info_;             // the replies to INFO in the greeting
  std::optional<Error> login_;   // why the login of the greeting was refused
  ServerFacts facts_;
  Error why_{Errc::unavailable, "not connected"};
};

// Waits until something happens on one of the connections, or the wait is over. Call next() on all
// of them afterwards. False: the wait was interrupted.
bool wait_for_any(std::span<Connection* const>, Wait);

}  // namespace dlock::redis
