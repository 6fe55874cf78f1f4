// SPDX-License-Identifier: Apache-2.0
// A child that is halted before and after each of its system calls: the moments at which others can see what it does.
#pragma once
#include <sys/types.h>
#include <functional>

namespace dlock::contract {

class Traced {
 public:
  // Forks. The child runs `body(halt)` and exits; from its call of `halt` on it goes step by step. The constructor returns when it has called it.
  explicit Traced(const std::function<void(const std::function<void()>& halt)>& body);
  ~Traced();  // kills and reaps
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

  bool step();  // to the next halt; false: it has ended
  void kill();  // -9, and reaps
  // Lets it go to its end. Its exit status; -1: killed.
  int finish();

 private:
  bool await(int& status) const;
  pid_t pid_;
  bool ended_ = false;
  int exit_ = -1;
};

}  // namespace dlock::contract
