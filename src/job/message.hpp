// SPDX-License-Identifier: Apache-2.0
// Messages between dlock and its guard, over a SOCK_SEQPACKET pair, which keeps messages separate.
// End of file means that the peer is dead. Neither side waits for a stopped peer, with one
// exception: the guard waits to send its last message, because then nothing is left to guard. Each
// side uses its end of the pair on one thread.
#pragma once
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>
#include "job/event.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// What dlock orders the guard to do.
namespace order {

// Carries descriptors to hold, if there are more than the following Start has room for.
struct HoldFds {};
// Start the job. The payload is the changes to its environment (job_environment). Descriptors to
// hold may come with the message.
struct Start {
  bool same_group = false;
  GuardDeadlines when{};
};
struct Deadlines {
  GuardDeadlines when;
};
// Signal the job's group, or every member of the tree. The message carries the deadlines, too,
// because dlock may be stopped before it sends another message.
struct Signal {
  GuardDeadlines when;
  int number;
  bool whole_tree = false;
};

}  // namespace order

// An order to the guard, or an event that the guard reports.
using Message =
    std::variant<order::HoldFds, order::Start, order::Deadlines, order::Signal, GuardEvent>;
static_assert(std::is_trivially_copyable_v<Message>);

class Channel {
 public:
  enum class ReceiveResult { message, nothing, closed };
  // More than the longest environment string that the kernel accepts, which is 128 KiB.
  static constexpr std::size_t max_payload = 160 * 1024;

  explicit Channel(Fd fd) : fd_(std::move(fd)) {}
  static bool make_pair(Fd& a, Fd& b);

  int fd() const noexcept { return fd_.get(); }
  bool open() const noexcept { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  // False: the peer is dead. If the peer is stopped and its queue is full, the channel keeps the
  // message, and flush() sends it later, in order. A newer message replaces a kept message that it
  // makes void, so the channel never keeps many.
  bool send(const Message&);
  bool flush();  // call it while `unsent()` and the descriptor is writable
  bool unsent() const noexcept { return !unsent_.empty(); }
  bool send_and_wait(const Message&);  // like send(), but blocks while the peer's queue is full

  // Sends one message with its payload and descriptors. The channel does not keep it for flush().
  // If one message cannot carry all descriptors, HoldFds messages carry the first ones ahead of it.
  // Returns 0 or an errno: EAGAIN if the peer has not read earlier messages, EPIPE or ECONNRESET if
  // the peer is dead, ETOOMANYREFS if too many descriptors of this user are in sockets, EMSGSIZE if
  // the message is too long. If an error may be temporary, send_with() retries for a fifth of a
  // second at most.
  int send_with(const Message&, std::string_view payload, const std::vector<int>& fds);

  // A received message. A payload longer than max_payload is cut, and `is_truncated` is set.
  struct Received {
    Message message{};
    std::string_view payload;  // valid until this process receives the next message, on any channel
    std::vector<Fd> attached;
    bool misses_fds = false;  // some attached descriptors could not be opened here (EMFILE)
    bool is_truncated = false;
  };
  ReceiveResult receive(Received&);

 private:
  void keep(const Message&);

  Fd fd_;
  std::vector<Message> unsent_;
};

}  // namespace dlock::run
