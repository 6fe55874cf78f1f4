// SPDX-License-Identifier: Apache-2.0
// Messages between dlock and its guard: whole messages over a SOCK_SEQPACKET pair. End of file
// means that the peer is dead. Neither side waits for a stopped peer, with one exception: the
// guard's last message, when there is nothing left to guard.
#pragma once
#include <string_view>
#include <vector>
#include "run/timing.hpp"
#include "util/fd.hpp"

namespace dlock::run {

enum class Kind : int {
  // to the guard
  hold,  // descriptors to hold that do not fit into `start`, which follows
  // fork the job; value: 1 same group; payload: environment; descriptors to hold may come with it
  start,
  deadlines,   // new deadlines
  signal,      // value: forward it to the job's group
  signal_all,  // value: send it to every member of the tree
  // to dlock
  started,       // value: pid of the job, after its exec
  refused,       // term_at had passed before the job was forked; nothing was started
  start_failed,  // value: errno; there is no job (no process, no descriptor)
  exec_failed,   // value: errno
  stopped,       // value: signal that stopped the job
  continued,
  exited,   // value: wait status of the job; its descendants may still live
  max_run,  // --max-run is over, and the job was sent its end signal
  expired,  // term_at was reached: lost. The only source of exit 123, a latch
  killing,  // the tree is being killed
  // waitpid returned ECHILD: no member is left. value: wait status of the job, or -1. The guard
  // exits
  tree_dead,
};

struct Message {
  Kind kind;
  int value = 0;
  bool expired = false;  // with tree_dead: the latch, in case its own message was lost
  GuardDeadlines when;
};

class Channel {
 public:
  enum class Got { message, nothing, closed };
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
  // message's limit go ahead in `hold`. 0, or an errno: EAGAIN of a peer that has not read earlier
  // messages, EPIPE and ECONNRESET of a dead peer, ETOOMANYREFS when too many descriptors of this
  // user are in sockets, EMSGSIZE. Errors that may pass are retried, for a fifth of a second at
  // most.
  int send_with(const Message&, std::string_view payload, const std::vector<int>& fds);
  static constexpr std::size_t max_attached = 253;  // the kernel's SCM_MAX_FD

  // A payload longer than max_payload is truncated, and `cut` is set.
  struct Received {
    Message message{};
    std::string_view payload;  // valid until this process receives again, by any channel
    std::vector<Fd> attached;
    bool lacks = false;  // some attached descriptors did not arrive (EMFILE)
    bool cut = false;
  };
  Got receive(Received&);

 private:
  void keep(const Message&);

  Fd fd_;
  std::vector<Message> unsent_;
};

}  // namespace dlock::run
