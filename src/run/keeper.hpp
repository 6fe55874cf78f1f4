// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include "job/process.hpp"
#include "report/output.hpp"
#include "run/event.hpp"
#include "run/plan.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// The thread that owns the Backend: it waits in the queue, renews, and releases on request. It may
// hang in a client library for any time. So every wait for it has a bound, nobody joins it, and the
// object lives until the process ends. The main thread calls the public functions; none of them
// blocks.
//
// The Keeper does not decide when a wait ends: it reports the store's replies, and leaves the queue
// on request (wait_end.hpp).
class Keeper {
 public:
  Keeper(const Plan&, Output&);
  ~Keeper() = delete;
  // Tries once on the caller's thread, before any other thread exists. True: granted. Only for
  // recipes whose store is this machine: a try takes microseconds, and start() continues where a
  // wait would begin. A job that ends before start() costs no thread.
  bool try_now();
  const FailedCall& failed() const noexcept { return failed_; }
  // Starts the thread, which continues where try_now() ended. If no thread is available an event
  // reports the end of the wait. If the lock is held already nothing changes, and the caller may
  // try again.
  void start();
  bool started() const noexcept { return started_; }
  // The wait failed before the thread existed, and an event says why. Only for use before start().
  bool over() const noexcept { return over_; }

  int fd() const noexcept { return wake_supervisor_.get(); }  // readable: call events()
  std::vector<KeeperEvent> events();

  // Shows the end of the program to people who inspect the lock. The next renewal carries it; where
  // the store is this machine it is written at once.
  void note_end(const ProgramEnded&);

  // One event follows. Starts the thread, except for a Release, which needs none. When a Detach is
  // not confirmed the Keeper goes on renewing.
  void post(const KeeperAction&);

 private:
  void fail_without_thread(const KeeperAction&);
  std::optional<KeeperAction> request();  // takes the pending request
  bool requested();                       // whether there is one
  void take_program_end();
  bool is_to_leave();  // takes the pending request; whether it is LeaveQueue
  void report(KeeperEvent);
  void finish(KeeperEvent last);
  void work();
  void splay();
  void open();
  void enqueue();
  void acquire();
  void fail_wait(const Error&);
  void give_up_wait(const Error&);
  void end_crowded(const Waiting&);
  void end_busy(const Busy&);
  Result<Progress> inspect_key(Waiting);
  Duration slice(Duration left, Clock::duration waited, const std::optional<Waiting>& last) const;
  void accept(const Granted&);
  bool note_start(const Lease&);
  std::string withdraw_start(const Lease&);
  void forget_recorded_start(const Lease&);
  void hold();
  bool renew();
  void detach(const action::Detach&);
  Result<Released> release_until(Deadline, std::optional<RunEnd> = std::nullopt);
  void release(const action::Release&);
  std::optional<RunEnd> run_end(const Outcome&) const;
  // Sleeps; a request, an alarm or an outage ends the sleep early.
  void nap(Duration, int alarm_fd = -1, int outage_fd = -1);
  Duration jitter(Duration);
  Duration spread(Duration);  // a random part of the duration
  void read_health();

  const Plan& plan_;
  Output& output_;
  Fd wake_supervisor_, wake_keeper_;
  FailedCall failed_;
  std::mutex mutex_;
  std::vector<KeeperEvent> events_;
  std::optional<KeeperAction> request_;
  std::string program_end_;  // for the next renewal

  bool started_ = false;

  // The thread uses the rest; until start() the caller does.
  Request attempt_;  // the plan's request; a new owner after an undo (lease.hpp)
  std::unique_ptr<Backend> backend_;
  Health health_;           // after the last request
  std::size_t warned_ = 0;  // how many of its warnings were printed
  std::unique_ptr<Waiter> waiter_;
  std::optional<Lease> lease_;
  int alarm_fd_ = -1;
  Deadline renew_at_{};
  // --once-per: our start is recorded, or may be.
  std::optional<RunStartUpdate> recorded_start_;
  WaitEnd wait_;
  bool queued_ = false, over_ = false;
  unsigned seed_ = 0;
};

// How often the Keeper asks the store and reports its reply.
inline constexpr Duration first_report{500'000};  // after which the user is told that dlock waits
inline constexpr Duration redrawn_report = std::chrono::seconds{1};  // on a terminal
inline constexpr Duration quiet_report = std::chrono::minutes{10};
inline constexpr Duration first_retry{100'000}, last_retry = std::chrono::seconds{2};

inline Duration until(Deadline t) { return std::chrono::duration_cast<Duration>(t - Clock::now()); }

}  // namespace dlock::run
