// SPDX-License-Identifier: Apache-2.0
// A thread of a simulated process: code with a stack of its own that runs until it lets the
// scheduler continue. All of them share one thread of the test program.
#pragma once
#include <ucontext.h>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace dlock::simulation {

// Stacks to be used again: a simulation needs some for a few microseconds each.
class Stacks {
 public:
  static constexpr std::size_t size = 512 * 1024;
  using Stack = std::unique_ptr<std::byte[]>;
  Stack take();
  void give_back(Stack stack) { free_.push_back(std::move(stack)); }

 private:
  std::vector<Stack> free_;
};

class Fiber {
 public:
  Fiber(Stacks& stacks, std::function<void()> work);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();  // it must be over

  void resume();  // by the scheduler: until it pauses or is over
  void pause();   // by the fiber itself
  bool over() const noexcept { return over_; }

 private:
  static void enter(unsigned high, unsigned low);
  void body();

  Stacks& stacks_;
  std::function<void()> work_;
  Stacks::Stack stack_;
  ucontext_t own_{}, scheduler_{};
  bool over_ = false;
  // for the address sanitizer, which must know on which stack it is
  void* own_fake_ = nullptr;
  void* scheduler_fake_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_size_ = 0;
};

}  // namespace dlock::simulation
