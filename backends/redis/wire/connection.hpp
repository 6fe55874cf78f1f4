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
  bool asking = false;        // behind ASKING: the server is about to get the slot of its keys
  bool alone = false;         // with Command::enough keys
  std::string_view number{};  // precedes the arguments; empty: none
};

// A command that can be repeated without harm.
struct Command {
  // What happens to the command at a server in its grace period, which may have lost a lock.
  enum class InGrace {
    sent,      // it grants nothing
    withheld,  // it may grant
    reported,  // it grants only if its last argument, appended to the others, is "0" instead of "1"
  };

  std::string_view what;           // "renew", for messages
  const Script* script = nullptr;  // none: a plain command
  // The keys of the script. For a plain command keys[0] chooses the server and is not sent.
  std::vector<std::string> keys;
  std::vector<std::string> args;  // the script's arguments, or the words of a plain command
  InGrace in_grace = InGrace::sent;
  // With so many keys the script works in a slot that is being moved; 0: it needs all.
  std::size_t enough = 0;
  bool confirmed = false;  // waits for as many replicas as ?replicas= demands
};

// Durations as arguments: whole microseconds, not negative. For PX and PEXPIRE: whole milliseconds,
// rounded up and never 0.
inline std::string micros(Duration d) {
  return std::to_string(std::max<Duration::rep>(0, d.count()));
}
inline std::string millis(Duration d) {
  return std::to_string(
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(d).count()));
}

// A connection to one server, as a state machine that never waits. It dials all addresses of the
// host, speaks TLS, logs in, learns the server's facts, and then carries several requests at a
// time, each with its own deadline. The caller polls it (poll_fd, poll_events, until poll_until)
// and calls next(). A request over a connection that closed may have been carried out, or may still
// be. Its sender may repeat it if it names an owner under which nothing was released.
class Connection {
 public:
  // What all connections of one store share. It must outlive them.
  struct Shared {
    const Options& options;
    Credentials& credentials;
    std::uint64_t& requests;  // commands sent so far
  };
  // The greeting is one round trip, before any other request. A sentinel gets no greeting: it often
  // has no password, and no databases.
  enum class Greeting { full, none };

  Connection(Shared shared, Endpoint at, Greeting greeting = Greeting::full)
      : shared_(shared), at_(std::move(at)), greeting_(greeting) {}

  const Endpoint& at() const noexcept { return at_; }
  bool closed() const noexcept { return state_ == State::closed; }
  bool ready() const noexcept { return state_ == State::ready; }
  // Dialling or greeting: nobody knows yet whether the connection is usable.
  bool pending() const noexcept { return !closed() && !ready(); }
  bool idle() const noexcept { return awaited_.empty(); }  // no request is in flight
  // It has replied to a request: a later failure may only mean that the server closed it.
  bool used() const noexcept { return used_; }
  const ServerFacts& facts() const noexcept { return facts_; }  // when ready
  unsigned credentials() const noexcept { return version_; }    // their version, for the greeting

  // Returns why it is closed. Errc::unavailable: there is no server, or the connection broke.
  // Errc::denied: password, rights or certificate. Errc::usage: the database does not exist.
  // Errc::protocol: the peer does not speak RESP, or sent a reply without a request.
  // Errc::timed_out: a request got no reply in time.
  const Error& why() const noexcept { return why_; }
  Error why_there() const;  // the same, with the server's name
  // It closed during the greeting without sending a byte: perhaps the server expects TLS.
  bool mute() const noexcept { return mute_; }

  // Dials again. The greeting must end by `by`, but gets at least `greeting`.
  void dial(Deadline by, Duration greeting = {});
  // Call it when ready. The next push() or next() sends it.
  void send(std::span<const std::string_view> command, Deadline answer_by);
  void send(std::initializer_list<std::string_view> command, Deadline answer_by) {
    send(std::span{command.begin(), command.size()}, answer_by);
  }
  // After ASKING there are two replies, and the second is that of the command. `last` is appended
  // to the words, unless it is empty.
  void send(const Command&, Manner, Deadline answer_by, std::string_view last = {});
  void push();
  // Continues as far as possible now. Returns the next reply, in the order of the requests.
  // Nothing: there is none yet, or the connection has closed.
  std::optional<Reply> next(Deadline now);
  // Closes at once and discards unsent data, so that a request that timed out is not sent later.
  void close(Error why);

  int poll_fd() const noexcept { return connection_ ? connection_->poll_fd() : -1; }
  short poll_events() const noexcept { return connection_ ? connection_->poll_events() : short{0}; }
  Deadline poll_until() const noexcept;  // call next() no later than this

  // Waits until it is ready, until a reply comes if a request is in flight, or until it closes.
  // Nothing: it is ready or closed, or the wait is over.
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
  Deadline until_{};         // dialling and greeting: then it has failed
  Duration own_greeting_{};  // the least time for the greeting
  unsigned version_ = 0;
  bool used_ = false, mute_ = false;
  std::deque<Awaited> awaited_;  // outstanding replies, those of the greeting first
  std::string info_;             // of the greeting
  std::optional<Error> login_;   // of the greeting: why it was refused
  ServerFacts facts_;
  Error why_{Errc::unavailable, "not connected"};
};

// Waits until something happens on one of the connections, or until `until`. Call next() on all of
// them afterwards. False: it was interrupted.
bool wait_for_any(std::span<Connection* const>, Wait);

}  // namespace dlock::redis
