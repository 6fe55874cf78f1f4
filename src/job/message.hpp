// SPDX-License-Identifier: Apache-2.0
// Messages between dlock and its guard: whole messages over a SOCK_SEQPACKET pair. End of file
// means that the peer is dead. Neither side waits for a stopped peer, with one exception: the
// guard's last message, when there is nothing left to guard.
#pragma once
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>
#include "job/event.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// What dlock tells the guard to do.
namespace order {

// Descriptors to hold that do not fit into Start, which follows.
struct HoldFds {};
// Fork the job; payload: environment; descriptors to hold may come with it.
struct Start {
  bool same_group = false;
  GuardDeadlines when{};
};
struct Deadlines {
  GuardDeadlines when;
};
// To the job's group, or to every member of the tree. With the deadlines, as dlock may be stopped
// before it sends more.
struct Signal {
  GuardDeadlines when;
  int number;
  bool whole_tree = false;
};

}  // namespace order

// An order to the guard, or what it answers.
using Message =
    std::variant<order::HoldFds, order::Start, order::Deadlines, order::Signal, GuardEvent>;
static_assert(std::is_trivially_copyable_v<Message>);

class Channel {
 public:
  enum class ReceiveResult { message, nothing, closed };
  // The kernel accepts no environment string longer than 128 KiB.
  static constexpr std::size_t max_payload = 160 * 1024;

  explicit Channel(Fd fd) : fd_(std::move(fd)) {}
  static bool make_pair(Fd& a, Fd& b);

  int fd() const noexcept { return fd_.get(); }
  bool open() const noexcept { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  // False: the peer is dead. Messages that a stopped peer's queue does not take are kept here, in
  // order, and sent by flush(); of messages of which only the last counts only the last is kept, so
  // there are never many.
  bool send(const Message&);
  bool flush();  // call it while `unsent()` and the descriptor is writable
  bool unsent() const noexcept { return !unsent_.empty(); }
  bool send_and_wait(const Message&);  // blocks while the peer's queue is full

  // One message with its payload and descriptors, at once or not at all; descriptors beyond one
  // message's limit go ahead in HoldFds. 0, or an errno: EAGAIN of a peer that has not read earlier
  // messages, EPIPE and ECONNRESET of a dead peer, ETOOMANYREFS when too many descriptors of this
  // user are in sockets, EMSGSIZE. Errors that may pass are retried, for a fifth of a second at
  // most.
  int send_with(const Message&, std::string_view payload, const std::vector<int>& fds);

  // A payload longer than max_payload is truncated, and `is_truncated` is set.
  struct Received {
    Message message{};
    std::string_view payload;  // valid until this process receives again, by any channel
    std::vector<Fd> attached;
    bool misses_fds = false;  // some attached descriptors did not arrive (EMFILE)
    bool is_truncated = false;
  };
  ReceiveResult receive(Received&);

 private:
  void keep(const Message&);

  Fd fd_;
  std::vector<Message> unsent_;
};

}  // namespace dlock::run
