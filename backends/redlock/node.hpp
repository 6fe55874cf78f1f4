// SPDX-License-Identifier: Apache-2.0
// One master: a line to it that is dialled again when it has closed, and what must arrive there.
// Nothing here waits: Masters polls all of them at once.
#pragma once
#include <deque>
#include "redis/wire/line.hpp"
#include "redlock/record.hpp"

namespace dlock::redlock {

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
  Node(redis::Line::Shared shared, Endpoint at) : shared_(shared), line_(shared, std::move(at)) {}

  const Endpoint& at() const noexcept { return line_.at(); }
  bool ready() const noexcept { return line_.ready(); }
  // Connecting or greeting: not yet known whether it is usable.
  bool pending() const noexcept { return line_.pending(); }
  Deadline pending_since() const noexcept { return began_; }
  const redis::ServerFacts& facts() const noexcept { return line_.facts(); }
  // not ready: the last error
  const Error& why() const noexcept { return why_; }
  // by password, rights, certificate
  bool refused() const noexcept { return line_.closed() && !retryable(why_.code); }
  bool idle() const noexcept { return under_way_.empty(); }
  Duration usual() const noexcept { return usual_; }  // its last response time; 0: none yet
  Deadline again() const noexcept { return again_; }  // closed: no attempt to connect before
  redis::Line& line() noexcept { return line_; }

  // Begins to connect if it is not connected and the last failure was long enough ago.
  void connect();
  // Sends it; its reply comes with this number, if the connection lives. Only when ready. A script
  // is sent as text the first time on each connection: a reply that the script is missing would
  // come behind other requests, perhaps after the caller has left.
  void send(const Ask&, std::uint64_t number);
  // Now, or when there is a connection.
  void send_or_owe(Ask, std::uint64_t number);
  // Reads what has arrived. Never waits.
  void advance(std::vector<Heard>& out);

 private:
  struct UnderWay {
    std::uint64_t number;
    const redis::Script* script;  // none: its reply has no number
    Deadline sent;
    std::optional<Ask> owed;  // to be sent again if the connection breaks
  };

  void receive(Reply, std::vector<Heard>& out);
  void became_ready();
  void closed(std::vector<Heard>& out);

  redis::Line::Shared shared_;
  redis::Line line_;
  Deadline began_{};  // to connect
  Deadline again_{};
  Duration pause_{};
  Error why_{Errc::unavailable, "not connected"};
  Duration usual_{};
  std::deque<UnderWay> under_way_;
  std::vector<const redis::Script*> known_;  // scripts that had a reply on this connection
  std::vector<Ask> owed_;
};

}  // namespace dlock::redlock
