// SPDX-License-Identifier: Apache-2.0
// All masters of one URL, polled together. Only one thread uses them.
#pragma once
#include <deque>
#include <functional>
#include "redis/wire/connection.hpp"
#include "redlock/record.hpp"

namespace dlock::redlock {

// A request to one master. A script returns the number of its request first, so that the reply to
// one request is never taken for the reply to another.
struct Call {
  const redis::Script* script = nullptr;  // none: a plain command, whose reply has no number
  std::vector<std::string> keys;
  // the arguments of the script, which follow the number; for a plain command, all its words
  std::vector<std::string> args;
  // true: the request releases something, so it is sent again on the next connection if this
  // connection breaks
  bool must_arrive = false;
  Deadline pointless = no_deadline;  // if must_arrive: after this time the release is not needed
};

struct Response {
  std::uint64_t number;
  Result<Reply> reply;  // an error reply is an Error; Errc::unavailable if the script was missing
  bool unknown_script = false;
};

// One master: a connection that is dialled again after it has closed, and the requests that must
// still arrive there. Its functions never wait, because Masters polls all nodes together.
class Node {
 public:
  Node(redis::Connection::Shared shared, Endpoint at)
      : shared_(shared), line_(shared, std::move(at)) {}

  const Endpoint& at() const noexcept { return line_.at(); }
  bool ready() const noexcept { return line_.ready(); }
  // Connecting or greeting: nobody knows yet whether the master is usable.
  bool pending() const noexcept { return line_.pending(); }
  Deadline pending_since() const noexcept { return began_; }
  const redis::ServerFacts& facts() const noexcept { return line_.facts(); }
  // Returns the last error. It is valid if the node is not ready.
  const Error& why() const noexcept { return why_; }
  // the master refused password, rights or certificate
  bool refused() const noexcept { return line_.closed() && !retryable(why_.code); }
  bool idle() const noexcept { return under_way_.empty(); }
  Duration usual() const noexcept { return usual_; }  // its last response time; 0: none yet
  Deadline again() const noexcept { return again_; }  // if closed: when it may connect again
  redis::Connection& line() noexcept { return line_; }

  // Begins to connect, unless there is a connection or the last failure is too recent.
  void connect();
  // Sends the request. A reply with this number follows, unless the connection closes before. Call
  // send() only when the node is ready.
  // On each connection, a script is sent as text until a reply to it has come. Otherwise the reply
  // that the script is missing could come after other requests were sent, or after the caller has
  // ended.
  void send(const Call&, std::uint64_t number);
  // Sends the request now, or as soon as there is a connection.
  void send_or_owe(Call, std::uint64_t number);
  // Reads what has arrived, and never waits.
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

  redis::Connection::Shared shared_;
  redis::Connection line_;
  Deadline began_{};  // when connecting began
  Deadline again_{};
  Duration pause_{};
  Error why_{Errc::unavailable, "not connected"};
  Duration usual_{};
  std::deque<UnderWay> under_way_;
  std::vector<const redis::Script*> known_;  // scripts that got a reply on this connection
  std::vector<Call> owed_;
};

// The outcome of one request at one master.
struct Vote {
  enum class State { not_sent, under_way, failed, answered } state = State::not_sent;
  Reply reply;  // valid if answered
  Error why{Errc::unavailable, ""};
  bool again = false;  // sent again, because the script was missing there
  Deadline sent_at{};
  Duration elapsed{};            // from sent_at to the reply
  std::int64_t wall_received{};  // this host's clock when the reply came

  bool sent() const noexcept { return state != State::not_sent; }  // it may have been carried out
  bool answered() const noexcept { return state == State::answered; }
  bool open() const noexcept { return state == State::under_way; }
  bool failed() const noexcept { return state == State::failed; }
  // Returns whether the reply begins with this word, after number and clock.
  bool says(std::string_view verdict) const noexcept {
    return answered() && reply.text_at(2) == verdict;
  }
  bool says_yes() const noexcept { return answered() && reply.number_at(2) == 1; }
};
using Votes = std::vector<Vote>;

// A function that returns the request for the i-th master; nullopt: that master gets no request.
using Calls = std::function<std::optional<Call>(std::size_t)>;
// Makes the same request for each master for which `whom` returns true; without `whom`: for all.
Calls same(Call, std::function<bool(std::size_t)> whom = {});

// How long to wait for slow masters after a decision: in total three times as long as the decision
// took, but not longer than `most`.
struct Stragglers {
  Duration most{};  // 0: not at all
  // true: also wait for each master that owed no earlier reply, for three times its last response
  // time, but not longer than `most`
  bool usual = false;
  bool all_of = false;  // true: wait for `most`, however long the decision took
};

class Masters {
 public:
  Masters(const redis::Options&, Credentials&, std::uint64_t& requests);

  std::size_t size() const noexcept { return nodes_.size(); }
  std::size_t majority() const noexcept { return nodes_.size() / 2 + 1; }
  // Returns whether a majority remains without n of the masters.
  bool majority_without(std::size_t n) const noexcept { return n <= size() - majority(); }
  const Node& operator[](std::size_t i) const noexcept { return nodes_[i]; }
  std::vector<Node>& nodes() noexcept { return nodes_; }

  // Connects to the masters. Returns when every master is ready or has failed, at `by`, or when
  // interrupted. Once a majority is ready, the others get three times as long as the majority
  // needed, but at most `patience`. `insist`: while there is no majority, try failed masters again,
  // unless too many refuse the login; if no majority comes, return an error. Errc::usage: two of
  // the masters are the same server.
  Result<void> gather(Deadline by, Duration patience, bool insist);
  // ready() counts the ready masters, and voting() those of them that cannot have lost a vote.
  std::size_t ready() const noexcept;
  std::size_t voting() const noexcept;
  bool votes(std::size_t i) const noexcept;
  // Returns how long it takes until a majority may vote again after restarts.
  Duration grace_left() const noexcept;
  // Returns why there is no majority. The error is final only if too many masters refused the
  // login, because masters that are missing for another reason may come back.
  Error too_few() const;

  // Sends each ready master its request. Returns when all have replied, when `decided` returns true
  // and the slow masters have had their time (Stragglers), or at `by`.
  Votes call(const Calls&, Deadline by, const std::function<bool(const Votes&)>& decided,
             Stragglers = {});
  void send(const Calls&);  // sends without waiting, and drops the replies
  // Reads until something has arrived or `by` has passed. False: it was interrupted.
  bool receive(Deadline by, const std::function<void(std::size_t, const Response&)>& each,
               bool interruptible);
  void pause(Deadline until);  // waits, and drops what arrives

  std::uint64_t next_number() noexcept { return ++number_; }

 private:
  bool refused() const noexcept;  // so many masters refuse us that the others are no majority
  Result<void> all_different() const;

  const redis::Options& options_;
  bool had_majority_ = false;
  // how long dlock needed to connect to a majority, when it last had none
  Duration majority_time_{};
  std::vector<Node> nodes_;
  std::uint64_t number_ = 0;
};

std::size_t count(const Votes&, const std::function<bool(const Vote&)>&);
// Counts the masters that failed with an error that a retry does not change (missing rights, the
// record of a newer dlock). If the other masters are no majority, returns one of these errors.
// nullopt: the other masters can still be a majority.
std::optional<Error> hopeless(const Votes&, std::size_t majority);

}  // namespace dlock::redlock
