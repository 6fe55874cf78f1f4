// SPDX-License-Identifier: Apache-2.0
// The suspend of the machine, for a program that tests/support/clock_shift.cpp is a part of.
#pragma once
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace dlock::test {

class Suspend {
 public:
  Suspend() {
    const int fd = ::memfd_create("shift", 0);
    if (::ftruncate(fd, 4096) != 0) std::abort();
    page_ = static_cast<volatile std::int64_t*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ::setenv("CLOCK_SHIFT_FILE", fmt::format("/proc/self/fd/{}", fd).c_str(), 1);
  }
  void sleep(std::chrono::nanoseconds d) { page_[1] = page_[1] + d.count(); }

 private:
  volatile std::int64_t* page_;
};

// Constructed before main(), because the shim looks for it then.
inline Suspend machine;

}  // namespace dlock::test
