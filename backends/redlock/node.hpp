// SPDX-License-Identifier: Apache-2.0
// One master: its connection, and its outstanding requests. Nothing here waits: masters.hpp polls
// all of them at once.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "redis/wire/connection.hpp"
#include "redis/wire/credentials.hpp"
#include "redis/wire/handshake.hpp"
#include "redis/wire/options.hpp"
#include "redis/wire/script.hpp"

namespace dlock::redlock {

using redis::Reply;

// A request to one master. Scripts return its number first, so a reply is never taken for that of
// another request.
struct Ask {
  const redis::Script* script = nullptr;  // none: a plain command, whose reply has no number
  std::vector<std::string> keys;
  std::vector<std::string> words;  // after the number; plain: the command
  // releases something: sent again on the next connection if this one breaks
  bool must_arrive = false;
  Deadline pointless = no_deadline;  // must_arrive: not needed after that
};

struct Heard {
  std::uint64_t number;
  Result<Reply> reply;  // an error reply is an Error: Errc::unavailable if the script was missing
  bool unknown_script = false;
};

class Node {
 public:
  // The references outlive this.
  Node(const redis::Options&, redis::Endpoint, redis::Credentials&, std::uint64_t& requests);

  const redis::Endpoint& at() const noexcept { return at_; }
  bool ready() const noexcept { return state_ == State::ready; }
  // Connecting or greeting: not yet known whether it is usable.
  bool pending() const noexcept { return state_ == State::opening || state_ == State::greeting; }
  Deadline pending_since() const noexcept { return began_; }
  const redis::ServerFacts& facts() const noexcept { return facts_; }
  // not ready: the last error
  const Error& why() const noexcept { return why_; }
  // by password, rights, certificate
  bool refused() const noexcept { return state_ == State::closed && !retryable(why_.code); }
  bool idle() const noexcept { return under_way_.empty(); }
  Duration usual() const noexcept { return usual_; }  // its last response time; 0: none yet

  // Begins to connect if it is not connected and the last failure was long enough ago.
  void connect();
  // Sends it; its reply comes with this number, if the connection lives. Only when ready. A script
  // is sent as text the first time on each connection: a reply that the script is missing would
  // come behind other requests, perhaps after the caller has left.
  void send(const Ask&, std::uint64_t number);
  // Now, or when there is a connection.
  void send_or_owe(Ask, std::uint64_t number);

  int poll_fd() const noexcept;  // -1: nothing to poll
  short poll_events() const noexcept;
  Deadline poll_until() const noexcept;  // call advance then at the latest
  // Reads what has arrived. Never waits.
  void advance(std::vector<Heard>& out);
  void drop(Error why, std::vector<Heard>* out = nullptr);

 private:
  enum class State { closed, opening, greeting, ready };
  struct UnderWay {
    std::uint64_t number;
    const redis::Script* script;  // none: its reply has no number
    Deadline sent, answer_by;
    std::optional<Ask> owed;  // to be sent again if the connection breaks
  };

  Result<void> step(std::vector<Heard>& out);
  Result<void> listen(std::vector<Heard>& out);
  Result<void> became_ready();

  const redis::Options& options_;
  const redis::Endpoint at_;
  redis::Credentials& credentials_;
  unsigned version_ = 0;  // of the credentials of this connection
  std::uint64_t& requests_;
  State state_ = State::closed;
  std::unique_ptr<redis::Connection> connection_;
  std::optional<redis::Greeting> greeting_;
  Deadline began_{};    // to connect
  Deadline give_up_{};  // opening and greeting: then it has failed
  Deadline again_{};    // closed: no attempt before
  Duration pause_{};
  redis::ServerFacts facts_;
  Error why_{Errc::unavailable, "not connected"};
  Duration usual_{};
  std::deque<UnderWay> under_way_;
  std::vector<const redis::Script*> known_;  // scripts that had a reply on this connection
  std::vector<Ask> owed_;
};

}  // namespace dlock::redlock
