// SPDX-License-Identifier: Apache-2.0
// All masters of one URL, on one poll(2).
#pragma once
#include <deque>
#include <functional>
#include "redis/wire/line.hpp"
#include "redlock/record.hpp"

namespace dlock::redlock {

// A request to one master. Scripts return its number first, so a reply is never taken for that of
// another request.
struct Call {
  const redis::Script* script = nullptr;  // none: a plain command, whose reply has no number
  std::vector<std::string> keys;
  std::vector<std::string> args;  // after the number; plain: the command
  // releases something: sent again on the next connection if this one breaks
  bool must_arrive = false;
  Deadline pointless = no_deadline;  // must_arrive: not needed after that
};

struct Response {
  std::uint64_t number;
  Result<Reply> reply;  // an error reply is an Error: Errc::unavailable if the script was missing
  bool unknown_script = false;
};

// One master: a line to it that is dialled again when it has closed, and what must arrive there.
// Nothing here waits: Masters polls all of them at once.
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
  void send(const Call&, std::uint64_t number);
  // Now, or when there is a connection.
  void send_or_owe(Call, std::uint64_t number);
  // Reads what has arrived. Never waits.
  void advance(std::vector<Response>& out);

 private:
  struct UnderWay {
    std::uint64_t number;
    Call call;
    Deadline sent;
  };

  void receive(Reply, std::vector<Response>& out);
  void became_ready();
  void closed(std::vector<Response>& out);

  redis::Line::Shared shared_;
  redis::Line line_;
  Deadline began_{};  // to connect
  Deadline again_{};
  Duration pause_{};
  Error why_{Errc::unavailable, "not connected"};
  Duration usual_{};
  std::deque<UnderWay> under_way_;
  std::vector<const redis::Script*> known_;  // scripts that had a reply on this connection
  std::vector<Call> owed_;
};

// The result of one request at each master.
struct Vote {
  enum class State { not_sent, under_way, failed, answered } state = State::not_sent;
  Reply reply;  // answered
  Error why{Errc::unavailable, ""};
  bool again = false;  // sent a second time, since the script was missing there
  Deadline sent_at{};
  Duration elapsed{};            // until its reply
  std::int64_t wall_received{};  // this host's clock at that time

  bool sent() const noexcept { return state != State::not_sent; }  // it may have been carried out
  bool answered() const noexcept { return state == State::answered; }
  bool open() const noexcept { return state == State::under_way; }
  bool failed() const noexcept { return state == State::failed; }
  // The first element of an answer behind number and clock.
  bool says(std::string_view verdict) const noexcept {
    return answered() && reply.text_at(2) == verdict;
  }
  bool says_yes() const noexcept { return answered() && reply.number_at(2) == 1; }
};
using Votes = std::vector<Vote>;

// A request to each master, or none.
using Calls = std::function<std::optional<Call>(std::size_t)>;
Calls same(Call, std::function<bool(std::size_t)> whom = {});  // no `whom`: all

// How long to wait for masters that are slower than a decision needs: three times what it took, and
// not longer than `most`.
struct Stragglers {
  Duration most{};  // 0: not at all
  // also longer: three times its last response time, unless a reply is outstanding
  bool usual = false;
  bool all_of = false;  // always `most`
};

class Masters {
 public:
  Masters(const redis::Options&, Credentials&, std::uint64_t& requests);

  std::size_t size() const noexcept { return nodes_.size(); }
  std::size_t majority() const noexcept { return nodes_.size() / 2 + 1; }
  // The others can be a majority.
  bool majority_without(std::size_t n) const noexcept { return n <= size() - majority(); }
  const Node& operator[](std::size_t i) const noexcept { return nodes_[i]; }
  std::vector<Node>& nodes() noexcept { return nodes_; }

  // Connects: until every master is ready or has failed, or a majority is ready and the others have
  // had three times as long, but not longer than `patience`, or `by` has passed, or the wait is
  // interrupted. `insist`: without a majority, failed ones are retried, unless so many refuse the
  // login that there can be none, and then it is an error. Errc::usage: two of them are the same
  // server.
  Result<void> gather(Deadline by, Duration patience, bool insist);
  // The masters that are ready; and those that may give a vote: they cannot have lost one.
  std::size_t ready() const noexcept;
  std::size_t voting() const noexcept;
  bool votes(std::size_t i) const noexcept;
  // until a majority may vote, as far as the grace is the reason
  Duration grace_left() const noexcept;
  // Why there is no majority. Final only if refused logins are the reason: other masters may come
  // back.
  Error too_few() const;

  // Sends its request to each ready master, and waits until all have answered, or it is decided and
  // the stragglers have had their time, or `by` has passed.
  Votes call(const Calls&, Deadline by, const std::function<bool(const Votes&)>& decided,
             Stragglers = {});
  void send(const Calls&);  // sends without waiting; the replies are dropped
  // Reads what comes, until something has or `by` has passed. False: interrupted.
  bool receive(Deadline by, const std::function<void(std::size_t, const Response&)>& each,
               bool interruptible);
  void pause(Deadline until);  // reads meanwhile, and drops it

  std::uint64_t next_number() noexcept { return ++number_; }

 private:
  bool refused() const noexcept;  // by so many that the others are no majority
  Result<void> all_different() const;

  const redis::Options& options_;
  bool had_majority_ = false;
  Duration majority_time_{};  // to connect, when there was none before
  std::vector<Node> nodes_;
  std::uint64_t number_ = 0;
};

std::size_t count(const Votes&, const std::function<bool(const Vote&)>&);
// Of masters whose answer a retry does not change (missing rights, the record of a newer dlock) too
// many for a majority of the others. nullopt: fewer.
std::optional<Error> hopeless(const Votes&, std::size_t majority);

}  // namespace dlock::redlock
