// SPDX-License-Identifier: Apache-2.0
// One kind of lock at one ttl: a job alone, and a job with two waiters behind it.
#pragma once
#include <sys/types.h>
#include <string>
#include <string_view>
#include <vector>
#include "support/process.hpp"
#include "support/stores.hpp"

namespace dlock::test {

class Cell {
 public:
  // directory: for traces and messages; it is made.
  // An exclusive job ends with `met_another` if another job of its key lives.
  Cell(Kind kind, int ttl, std::string url, std::string directory);

  void begin();             // returns once the first job runs and the two others wait
  void end_holder() const;  // the holder's job ends by itself

  enum class Whom { holder, waiter };  // of the queue; waiter: the first
  void kill(Whom);
  void stop(Whom);
  void go_on(Whom);
  const std::string& key() const { return key_; }  // of the queue
  // From now on until finish(), for the checker: order and times near a fault are not judged.
  void note_fault(const std::string& name, pid_t pid = 0);

  struct Excuses {
    bool lost = false;     // the holders may end with 123
    bool forgets = false;  // the store has forgotten grants: tokens alone protect
  };
  // Checks the result; appends the errors.
  std::string finish(Excuses, std::vector<std::string>& wrong);

 private:
  struct Run {
    Process process;
    std::string base;  // of its files: .trace, .err
    std::string end = "exit 0";
    bool has_job = true;
  };

  Run start(const std::string& key, const std::vector<std::string>& mode,
            const std::vector<std::string>& command);
  void await(const Run&, const char* event) const;
  std::vector<std::string> traces() const;
  bool is_judged(std::string_view invariant, Excuses) const;

  const Kind kind_;
  const int ttl_;
  const std::string url_, base_, key_;
  int number_ = 0;
  std::vector<std::string> faults_;
  bool stopped_ = false;
  std::vector<Run> alone_, queued_;
};

}  // namespace dlock::test
