// SPDX-License-Identifier: Apache-2.0
// One kind of lock at one ttl: a job alone, and a job with two waiters behind it.
#pragma once
#include <string>
#include <vector>
#include "store.hpp"
#include "support/process.hpp"

namespace dlock::test {

class Cell {
 public:
  // directory: for traces and messages; it is made.
  Cell(Kind kind, int ttl, std::string url, std::string directory);

  void begin();             // returns once the first job runs and the two others wait
  void end_holder() const;  // the holder's job ends by itself
  // Checks the result; appends the errors. may_be_lost: the holder may end with 123.
  std::string finish(bool may_be_lost, std::vector<std::string>& wrong);
  std::vector<std::string> traces() const;

 private:
  struct Run {
    Process process;
    std::string base;  // of its files: .trace, .err
  };

  Run start(const std::string& key, const std::vector<std::string>& mode,
            const std::vector<std::string>& command);
  void await(const Run&, const char* event) const;

  const Kind kind_;
  const int ttl_;
  const std::string url_, base_;
  int number_ = 0;
  std::vector<Run> alone_, queued_;
};

}  // namespace dlock::test
