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

// The thread that owns the Backend: it waits in the queue, renews, and releases on request. A
// client library may block the Keeper for ever. So every wait for the Keeper has a bound, no thread
// joins it, and the object lives until the process ends. The main thread calls the public
// functions; none of them blocks.
//
// The Keeper does not decide when a wait ends: it reports the store's replies, and leaves the queue
// on request (wait_end.hpp).
class Keeper {
 public:
  Keeper(const Plan&, Output&);
  ~Keeper() = delete;
  // Tries once on the caller's thread, before any other thread exists. Returns whether the lock was
  // granted. Only for recipes whose store is this machine, because there a try takes microseconds.
  // If the lock was not granted, start() continues with the wait. If the lock was granted, start()
  // begins to renew it; a job that ends before start() needs no thread.
  bool try_now();
  const FailedCall& failed() const noexcept { return failed_; }
  // Starts the thread, which continues where try_now() ended. If no thread is available, an event
  // reports the end of the wait. But if the lock is held already, there is no event, and the caller
  // may call start() again.
  void start();
  bool started() const noexcept { return started_; }
  // Only before start(): returns whether the wait has failed already. An event says why.
  bool over() const noexcept { return over_; }

  int fd() const noexcept { return wake_supervisor_.get(); }  // readable: call events()
  std::vector<KeeperEvent> events();

  // Shows the end of the program to people who inspect the lock. The next renewal writes it to the
  // store. If the store is this machine, that renewal comes at once.
  void note_end(const ProgramEnded&);

  // Passes an action to the thread, and starts the thread if necessary. One event reports the
  // result. A Release before start() needs no thread: post() carries it out itself. If a Detach is
  // not confirmed, the Keeper goes on renewing.
  void post(const KeeperAction&);

 private:
  void fail_without_thread(const KeeperAction&);
  std::optional<KeeperAction> request();  // takes the pending request
  bool requested();                       // returns whether a request is pending
  void take_program_end();
  bool is_to_leave();  // takes the pending request; returns whether it is LeaveQueue
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
  Duration spread(Duration);  // returns a random part of the duration
  void read_health();

  const Plan& plan_;
  Output& output_;
  Fd wake_supervisor_, wake_keeper_;
  FailedCall failed_;
  std::mutex mutex_;
  std::vector<KeeperEvent> events_;
  std::optional<KeeperAction> request_;
  std::string program_end_;  // shown with the next renewal

  bool started_ = false;

  // Before start() the main thread uses the members below; after it only the Keeper's thread does.
  Request attempt_;  // the plan's request; after an undo it has a new owner (lease.hpp)
  std::unique_ptr<Backend> backend_;
  Health health_;           // of the Backend, after the last request
  std::size_t warned_ = 0;  // how many of the Backend's warnings were printed
  std::unique_ptr<Waiter> waiter_;
  std::optional<Lease> lease_;
  int alarm_fd_ = -1;
  Deadline renew_at_{};
  // --once-per: the start that we recorded, or may have recorded.
  std::optional<RunStartUpdate> recorded_start_;
  WaitEnd wait_;
  bool queued_ = false, over_ = false;
  unsigned seed_ = 0;
};

// The intervals at which the Keeper asks the store and reports its reply.
inline constexpr Duration first_report{500'000};  // after it the user learns that dlock waits
inline constexpr Duration redrawn_report = std::chrono::seconds{1};  // on a terminal
inline constexpr Duration quiet_report = std::chrono::minutes{10};   // if no line is due earlier
inline constexpr Duration first_retry{100'000}, last_retry = std::chrono::seconds{2};

inline Duration until(Deadline t) { return std::chrono::duration_cast<Duration>(t - Clock::now()); }

}  // namespace dlock::run
