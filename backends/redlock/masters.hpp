// SPDX-License-Identifier: Apache-2.0
// All masters of one URL, polled together. Only one thread uses them.
#pragma once
#include <deque>
#include <functional>
#include "redis/wire/connection.hpp"
#include "redlock/record.hpp"

namespace dlock::redlock {

// A request to one master. Scripts return the number of the request first, so the reply to another
// request is never mistaken for its own.
struct Call {
  const redis::Script* script = nullptr;  // none: a plain command, whose reply has no number
  std::vector<std::string> keys;
  std::vector<std::string> args;  // after the number; for a plain command, all of it
  // if this connection breaks, send it again on the next: it releases something
  bool must_arrive = false;
  Deadline pointless = no_deadline;  // must_arrive: after that time the release is not needed
};

struct Response {
  std::uint64_t number;
  Result<Reply> reply;  // an error reply is an Error; Errc::unavailable if the script was missing
  bool unknown_script = false;
};

// One master: a connection that is dialled again after it has closed, and the requests that must
// arrive there. Nothing here waits: Masters polls all nodes together.
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
  // valid if not ready: the last error
  const Error& why() const noexcept { return why_; }
  // the master refused password, rights or certificate
  bool refused() const noexcept { return line_.closed() && !retryable(why_.code); }
  bool idle() const noexcept { return under_way_.empty(); }
  Duration usual() const noexcept { return usual_; }  // its last response time; 0: none yet
  Deadline again() const noexcept { return again_; }  // closed: do not connect before
  redis::Connection& line() noexcept { return line_; }

  // Begins to connect, unless it is connected or the last failure is too recent.
  void connect();
  // Sends the request. Its reply has this number, if the connection lives. Call it only when ready.
  // The first time on each connection, a script is sent as text. Otherwise the reply that the
  // script is missing would come after other requests, perhaps when the caller has ended.
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
  std::vector<const redis::Script*> known_;  // scripts that were answered on this connection
  std::vector<Call> owed_;
};

// The outcome of one request at one master.
struct Vote {
  enum class State { not_sent, under_way, failed, answered } state = State::not_sent;
  Reply reply;  // valid if answered
  Error why{Errc::unavailable, ""};
  bool again = false;  // sent again, because the script was missing there
  Deadline sent_at{};
  Duration elapsed{};            // until its reply
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

// Returns the request for each master; nothing: that master gets no request.
using Calls = std::function<std::optional<Call>(std::size_t)>;
Calls same(Call, std::function<bool(std::size_t)> whom = {});  // without `whom`: for all

// How long to wait for masters that are slower than the decision needs: three times as long as the
// decision took, but not longer than `most`.
struct Stragglers {
  Duration most{};  // 0: not at all
  // or longer: three times the master's last response time, unless a reply is outstanding
  bool usual = false;
  bool all_of = false;  // always wait for `most`
};

class Masters {
 public:
  Masters(const redis::Options&, Credentials&, std::uint64_t& requests);

  std::size_t size() const noexcept { return nodes_.size(); }
  std::size_t majority() const noexcept { return nodes_.size() / 2 + 1; }
  // Returns whether all but n masters are a majority.
  bool majority_without(std::size_t n) const noexcept { return n <= size() - majority(); }
  const Node& operator[](std::size_t i) const noexcept { return nodes_[i]; }
  std::vector<Node>& nodes() noexcept { return nodes_; }

  // Connects. It returns when every master is ready or has failed; when a majority is ready and the
  // others have had three times as long, at most `patience`; at `by`; or when interrupted.
  // `insist`: without a majority, try failed masters again; it is an error if too many of them
  // refuse the login. Errc::usage: two of the masters are the same server.
  Result<void> gather(Deadline by, Duration patience, bool insist);
  // Count ready masters. voting() counts only those that can have lost no vote.
  std::size_t ready() const noexcept;
  std::size_t voting() const noexcept;
  bool votes(std::size_t i) const noexcept;
  // how long until a majority may vote again after restarts
  Duration grace_left() const noexcept;
  // Returns why there is no majority: final only after refused logins, because masters may come
  // back.
  Error too_few() const;

  // Sends each ready master its request. It returns when all have replied; when the decision is
  // made and the slow masters have had their time; or at `by`.
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
  // the time it took to connect to a majority the last time it was missing
  Duration majority_time_{};
  std::vector<Node> nodes_;
  std::uint64_t number_ = 0;
};

std::size_t count(const Votes&, const std::function<bool(const Vote&)>&);
// Returns the error if too many masters give an answer that a retry does not change (missing
// rights, the record of a newer dlock). nullopt: the others can still be a majority.
std::optional<Error> hopeless(const Votes&, std::size_t majority);

}  // namespace dlock::redlock
