// SPDX-License-Identifier: Apache-2.0
// What dlock and its guard say to each other: whole messages over a SOCK_SEQPACKET pair. End of file means that the peer is dead.
// Neither side ever waits for a peer that is stopped, with one exception: the guard's last word, when nothing is left to guard.
#pragma once
#include <string_view>
#include "core/clock.hpp"
#include "util/fd.hpp"

namespace dlock::run {

struct GuardDeadlines {
  Deadline term_at = no_deadline;  // from the lease: reaching it means the lock is lost, for good
  Deadline kill_at = no_deadline;  // from the lease: the tree is killed
  Deadline stop_by = no_deadline;  // from --kill-after or --max-run: the tree is killed, the lock is not lost
};

enum class Kind : int {
  // to the guard
  start,       // fork the job; value: 1 same group; payload: environment; a descriptor to hold may come with it
  deadlines,   // when
  signal,      // value: forward it to the job's group
  signal_all,  // value: send it to every member of the tree
  sweep,       // kill the whole tree now
  // to dlock
  started,       // value: pid of the job, after its exec
  refused,       // term_at had passed before the job was forked; nothing was started
  start_failed,  // value: errno; there is no job (no process, no descriptor)
  exec_failed,   // value: errno
  stopped,       // value: signal that stopped the job
  continued,
  exited,     // value: wait status of the job; its descendants may live on
  expired,    // term_at was reached: lost. The only source of exit 123, a latch
  killing,    // the tree is being killed
  tree_dead,  // waitpid said ECHILD: nobody is left. value: wait status of the job, or -1. The guard exits
};

struct Message {
  Kind kind;
  int value = 0;
  bool expired = false;  // with tree_dead: the latch, should its own message have been lost
  GuardDeadlines when;
};

class Channel {
 public:
  enum class Got { message, nothing, closed };
  // The kernel takes no single string of an environment that is longer than 128 KiB.
  static constexpr std::size_t max_payload = 160 * 1024;

  explicit Channel(Fd fd) : fd_(std::move(fd)) {}
  static bool make_pair(Fd& a, Fd& b);

  int fd() const noexcept { return fd_.get(); }
  bool open() const noexcept { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  // False: not delivered (peer dead, or so long stopped that its queue is full). `attach` >= 0 travels as a duplicate.
  bool send(const Message&, std::string_view payload = {}, int attach = -1) const;
  bool send_and_wait(const Message&) const;  // blocks while the peer's queue is full

  // A descriptor that was announced but did not arrive (EMFILE) is reported as attached == -2. A payload longer than max_payload
  // is cut off, and `cut` says so.
  struct Received {
    Message message{};
    std::string_view payload;  // until the next receive
    int attached = -1;
    bool cut = false;
  };
  Got receive(Received&);

 private:
  Fd fd_;
};

}  // namespace dlock::run
