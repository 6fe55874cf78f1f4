// SPDX-License-Identifier: Apache-2.0
// A child that is halted before each of its system calls. Between the end of one call and the begin
// of the next one, nothing changes that others can see.
#pragma once
#include <sys/types.h>
#include <functional>

namespace dlock::contract {

class Traced {
 public:
  // Forks. The child runs `body(halt)` and exits; it is single-stepped from its call of `halt` on.
  // The constructor returns after that call.
  explicit Traced(const std::function<void(const std::function<void()>& halt)>& body);
  ~Traced();  // kills and reaps
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

  bool step();  // carries out the call before which it halts, to the next; false: it has ended
  void kill();  // -9, and reaps
  // Lets it run to its end. Its exit status; -1: killed.
  int finish();

 private:
  bool await(int& status) const;
  pid_t pid_;
  bool ended_ = false;
  int exit_ = -1;
};

}  // namespace dlock::contract
