// SPDX-License-Identifier: Apache-2.0
#include "simulation/fiber.hpp"
#include <cstdint>
#include <cstdlib>

// Provided by the sanitizers' own library where they are on, and absent elsewhere.
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void**, const void*, std::size_t);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void*, std::size_t);
}

namespace dlock::simulation {
namespace {

void leave(void** fake, const void* stack, std::size_t size) {
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(fake, stack, size);
}
void arrive(void* fake, const void** from, std::size_t* size) {
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(fake, from, size);
}

}  // namespace

Stacks::Stack Stacks::take() {
  if (free_.empty()) return Stack{new std::byte[size]};
  Stack stack = std::move(free_.back());
  free_.pop_back();
  // its last user left marks there, in frames that it never returned from
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(stack.get(), size);
  return stack;
}

Fiber::Fiber(Stacks& stacks, std::function<void()> work)
    : stacks_(stacks), work_(std::move(work)), stack_(stacks.take()) {
  ::getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = Stacks::size;
  own_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
                static_cast<unsigned>(self >> 32U), static_cast<unsigned>(self));
}

Fiber::~Fiber() {
  if (!over_) std::abort();  // what it owns would never be freed
  stacks_.give_back(std::move(stack_));
}

void Fiber::enter(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32U | low)->body();
}

void Fiber::body() {
  arrive(nullptr, &scheduler_stack_, &scheduler_size_);
  work_();
  over_ = true;
  leave(nullptr, scheduler_stack_, scheduler_size_);  // never to return here
  ::setcontext(&scheduler_);
}

void Fiber::resume() {
  leave(&scheduler_fake_, stack_.get(), Stacks::size);
  ::swapcontext(&scheduler_, &own_);
  arrive(scheduler_fake_, nullptr, nullptr);
}

void Fiber::pause() {
  leave(&own_fake_, scheduler_stack_, scheduler_size_);
  ::swapcontext(&own_, &scheduler_);
  arrive(own_fake_, &scheduler_stack_, &scheduler_size_);
}

}  // namespace dlock::simulation
