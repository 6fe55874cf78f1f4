// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>
#include "run/events.hpp"
#include "run/no_process.hpp"
#include "run/plan.hpp"
#include "run/wait_end.hpp"
#include "run/wrap/several.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// The thread that owns the backend: waits in the queue, renews, releases on request. It may hang in
// a client library for any time; so every wait for it has a bound, it is never joined, and it lives
// until the process ends.
//
// It does not decide when a wait ends: it reports the store's answers, and leaves the queue when
// told to (wait_end.hpp).
class Keeper {
 public:
  struct Began {
    Deadline at;
  };  // the wait: the store is asked from now on
  struct Answered {
    Deadline asked_at;
    std::optional<HolderView> holder;
    std::string why;  // as in Waiting
  };                  // the store's answer: others have the lock
  struct NoAnswer {
    std::string why;
    // the store is unreachable, or its reply is malformed; else it answered that it grants nothing
    // now
    bool failed = false;
  };  // now; it will be asked again
  struct Granted {
    Lease lease;
    std::vector<Fd> holds;  // duplicates of the descriptors with which the lock would end
    std::vector<Lease> more;
  };
  struct Kept {
    Deadline deadline;
    bool revoked = false;  // this holder was asked to stop (revoke)
  };
  struct RenewFailed {
    std::string why;
  };
  struct Gone {
    std::string why;
  };  // lost, final
  struct Ended {
    int status;
    std::string message;
    bool busy = false;
  };  // nothing is held; an empty message: nothing to report
  struct Left {};
  struct Released {
    bool confirmed;
    std::string why;
    bool unknown = false;  // not confirmed because the store could not be reached
  };
  struct Detached {
    bool confirmed;
    std::string why;
  };
  using Report = std::variant<Began, Waiting, Answered, NoAnswer, Granted, Kept, RenewFailed, Gone,
                              Ended, Left, Released, Detached>;

  Keeper(const Plan&, Events&);
  ~Keeper() = delete;
  // The first try on the caller's thread, before any other exists. Only for recipes whose store is
  // this machine: they take microseconds, and anything to wait for is left to start(), which
  // continues; a job that ends before start() costs no thread. True: granted.
  bool try_now();
  const FailedCall& failed() const noexcept { return failed_; }
  // Starts the thread; continues where try_now() ended. If no thread is available: a report says
  // so, or, if the lock is held already, nothing has changed, and it can be tried again.
  void start();
  bool started() const noexcept { return started_; }
  // before the thread: it failed, and a report says why
  bool over() const noexcept { return over_; }

  int fd() const noexcept { return wake_supervisor_.get(); }  // readable: reports() has news
  std::vector<Report> reports();

  // Requests; each is answered by one report. They start the thread, except release(), which needs
  // none.
  void leave() { ask({Request::leave, {}}); }  // Left
  // releases, then as from the start
  void queue_again(Duration pause) { ask({Request::queue_again, pause}); }
  void release();  // Released
  // --once-per: the job was not started, or its failure does not count; before release() or
  // detach(), which withdraw the noted start first
  void forget_start() { forgets_start_ = true; }
  // How the job ended, for the record of the last run; before release() or detach()
  void job_ended(RunEnd end) { run_end_ = end; }
  // Detached; when not confirmed it goes on renewing
  void detach(Duration d) { ask({Request::detach, d}); }

 private:
  struct Request {
    enum What { none, leave, queue_again, release, detach } what = none;
    Duration span{};
  };
  enum class Next { again, over };

  void ask(Request);
  void cannot(Request);
  Request request();  // removes it
  bool requested();
  void report(Report);
  void work();
  void wait_and_hold();
  bool open();
  bool enqueue();
  Next acquire();
  void gave_up(const Error&);
  void is_busy(const Busy&);
  Next leave_place();
  Result<void> confirm(Waiting&);
  Duration slice(Duration left, Clock::duration waited, bool told) const;
  bool take(const dlock::Granted&);
  bool note_start(const Lease&);
  std::string withdraw_start(const Lease&);
  void forget_noted(const Lease&);
  bool splay();
  Next hold();
  bool renew(Lease& lease, Deadline& next);
  void undo(const Lease&);
  void trace_released(const Result<dlock::Released>&);
  void give_back(const Lease&, bool lost);
  // ends early for a request or an alarm
  void nap(Duration, int alarm_fd = -1, int outage_fd = -1);
  Duration jitter(Duration);
  Duration spread(Duration);  // a random part of it
  void look_at_health();

  const Plan& plan_;
  Events& events_;
  const bool several_;  // keys: one may be lost, or taken, while others are not
  Fd wake_supervisor_, wake_keeper_;
  FailedCall failed_;
  std::mutex mutex_;
  std::vector<Report> reports_;
  Request request_;

  bool started_ = false;
  std::atomic<bool> forgets_start_ = false;
  std::optional<RunEnd> run_end_;

  // used by the thread; by the caller until start()
  dlock::Request asking_;  // the plan's; with another owner after an undo
  OtherKeys others_;       // with several: of the last grant
  std::unique_ptr<Backend> backend_;
  Health health_;           // after the last request
  std::size_t warned_ = 0;  // of its warnings have been passed on
  std::unique_ptr<Waiter> place_;
  std::optional<Lease> lease_;
  int alarm_fd_ = -1;
  Deadline first_renewal_{};
  // --once-per, since our start was noted, or may be
  std::optional<StartChange> noted_;
  Deadline wait_until_ = no_deadline, connect_until_ = no_deadline;
  Deadline answered_{};  // when the last request was sent that the store answered with: wait
  bool reached_ = false, queued_ = false, over_ = false;
  unsigned seed_ = 0;
};

WaitEnd::Rules wait_rules(const Plan&);

}  // namespace dlock::run
