// SPDX-License-Identifier: Apache-2.0
// All masters of one URL, on one poll(2).
#pragma once
#include <functional>
#include <vector>
#include "redlock/node.hpp"

namespace dlock::redlock {

// What became of one request at each master.
struct Vote {
  enum class State { not_asked, under_way, failed, answered } state = State::not_asked;
  bool sent = false;  // it may have been carried out
  Reply reply;        // answered
  Error why{Errc::unavailable, ""};
  bool again = false;  // sent a second time, since the script was not known
  Deadline sent_at{};
  Duration took{};            // until its answer
  std::int64_t wall_heard{};  // this host's clock then

  bool answered() const noexcept { return state == State::answered; }
  bool open() const noexcept { return state == State::under_way; }
};
using Votes = std::vector<Vote>;

class Masters {
 public:
  Masters(const redis::Options&, const redis::TlsContext*, std::uint64_t& requests);

  std::size_t size() const noexcept { return nodes_.size(); }
  std::size_t majority() const noexcept { return nodes_.size() / 2 + 1; }
  const Node& operator[](std::size_t i) const noexcept { return nodes_[i]; }

  // Connects: until every master is ready or has failed, or a majority is ready and the others have had `patience`, or `by` has passed, or the wait
  // is interrupted. `insist`: as long as there is no majority, those that failed are tried again, unless so many refuse us that there can be none.
  // Errc::usage: two of them are the same server.
  Result<void> gather(Deadline by, Duration patience, bool insist);
  // Of the masters, those that can be asked; and those that may be asked for a vote, since they cannot have forgotten one.
  std::size_t ready() const noexcept;
  std::size_t voting() const noexcept;
  bool votes(std::size_t i) const noexcept;
  Duration grace_left() const noexcept;  // until a majority may vote, as far as it waits for that
  // Why there is no majority. Not to be retried only if those that refuse us are the reason: others may come back.
  Error too_few() const;

  // Sends `make(i)` to each master that is ready and for which it makes something, and hears until all have answered, or it is decided and `patience`
  // has passed, or `by` has.
  Votes ask(const std::function<std::optional<Ask>(std::size_t)>& make, Deadline by,
            const std::function<bool(const Votes&)>& decided, Duration patience = {});
  // Sends and does not wait. The answers are dropped.
  void tell(const std::function<std::optional<Ask>(std::size_t)>& make);
  // Until `by`, or until `heard` says that it is enough; answers of before are handed to it, too. False: interrupted.
  bool hear(Deadline by, const std::function<bool(std::size_t, const Heard&)>& heard, bool interruptible);

  std::uint64_t next_number() noexcept { return ++number_; }
  std::vector<Node>& nodes() noexcept { return nodes_; }

 private:
  bool refused() const noexcept;  // by so many that the others are no majority

  const redis::Options& options_;
  std::vector<Node> nodes_;
  std::uint64_t number_ = 0;
};

std::size_t count(const Votes&, const std::function<bool(const Vote&)>&);

}  // namespace dlock::redlock
