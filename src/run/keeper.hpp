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
#include "run/plan.hpp"
#include "util/fd.hpp"

namespace dlock::run {

// The thread that owns the backend: waits in the queue, renews, releases on request. It may hang in a client library for as
// long as that likes; so nobody waits for it without a bound, it is never joined, and it lives until the process ends.
class Keeper {
 public:
  struct Granted {
    Lease lease;
    Fd hold;  // a duplicate of the descriptor with which the lock would end
    std::vector<Lease> more;
  };
  struct Kept {
    Deadline deadline;
    bool revoked = false;  // somebody asks that the job be stopped
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
  };  // nothing is held; an empty message: nothing to say
  struct Left {};
  struct Released {
    bool confirmed;
    std::string why;
    bool unknown = false;  // not confirmed because the store could not be asked
  };
  struct Detached {
    bool confirmed;
    std::string why;
  };
  using Report = std::variant<Waiting, Granted, Kept, RenewFailed, Gone, Ended, Left, Released, Detached>;

  Keeper(const Plan&, Events&);
  ~Keeper() = delete;
  // The first try on the caller's thread, before any other exists. Only for recipes whose store is this machine: what they do
  // takes microseconds and is bounded, and a job that ends before start() costs no thread. False: not granted, start() goes on.
  bool try_now();
  bool usable() const noexcept { return wake_supervisor_ && wake_keeper_; }  // false: no descriptors were to be had
  // The thread; goes on where try_now() ended. Where no thread is to be had: a report says so, or, if the lock is held already,
  // nothing has changed, and it can be tried again.
  void start();
  bool started() const noexcept { return started_; }
  bool over() const noexcept { return over_; }  // before the thread: it failed, and a report says why

  int fd() const noexcept { return wake_supervisor_.get(); }  // readable: reports() has news
  std::vector<Report> reports();

  // Requests; each is answered by one report. They start the thread, except release(), which needs none.
  void leave() { ask({Request::leave, {}}); }              // Left
  void queue_again() { ask({Request::queue_again, {}}); }  // releases, then as from the start
  void release();                                          // Released
  void forget_start() { started_nothing_ = true; }         // --once-per: the job was not started; before release()
  void detach(Duration d) { ask({Request::detach, d}); }   // Detached; when not confirmed it goes on renewing

 private:
  struct Request {
    enum What { none, leave, queue_again, release, detach } what = none;
    Duration span{};
  };
  enum class Next { again, over };

  void ask(Request);
  void cannot(Request);
  Request request();  // takes it
  bool requested();
  void report(Report);
  void work();
  void wait_and_hold();
  bool open();
  bool enqueue();
  Next acquire();
  bool take(const dlock::Granted&);
  bool note_start(const Lease&);
  void withdraw_start(const Lease&);
  bool splay();
  Next hold();
  bool renew(Lease& lease, Deadline& next);
  void give_back(const Lease&, bool lost);
  void nap(Duration, int alarm_fd = -1);  // ends early for a request or an alarm
  Duration jitter(Duration);

  const Plan& plan_;
  Events& events_;
  Fd wake_supervisor_, wake_keeper_;
  std::mutex mutex_;
  std::vector<Report> reports_;
  Request request_;

  bool started_ = false;
  std::atomic<bool> started_nothing_ = false;

  // the thread's own; the caller's until start()
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Waiter> place_;
  std::optional<Lease> lease_;
  int alarm_fd_ = -1;
  std::optional<Starts> noted_;  // what the store knew before a start of ours was noted
  Deadline wait_until_ = no_deadline, connect_until_ = no_deadline;
  bool reached_ = false, over_ = false;
  unsigned seed_ = 0;
};

}  // namespace dlock::run
