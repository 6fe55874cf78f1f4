// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>

namespace dlock::run {

// Makes a system call without a library: it needs no page of libc, and does not change errno.
// Returns -errno on failure. The Backstop's thread and a child before its exec use it. On
// processors other than x86-64 and AArch64 it calls syscall(2) of libc.
#if defined(__x86_64__)
[[gnu::always_inline]] inline long raw_call(long number, long a = 0, long b = 0, long c = 0,
                                            long d = 0, long e = 0) {
  long result = number;
  asm volatile("movq %[d], %%r10; movq %[e], %%r8; syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), [d] "r"(d), [e] "r"(e)
               : "rcx", "r8", "r10", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
[[gnu::always_inline]] inline long raw_call(long number, long a = 0, long b = 0, long c = 0,
                                            long d = 0, long e = 0) {
  long result;
  asm volatile(
      "mov x8, %[number]; mov x0, %[a]; mov x1, %[b]; mov x2, %[c]; mov x3, %[d]; mov x4, %[e]; "
      "svc 0; mov %[result], x0"
      : [result] "=r"(result)
      : [number] "r"(number), [a] "r"(a), [b] "r"(b), [c] "r"(c), [d] "r"(d), [e] "r"(e)
      : "x0", "x1", "x2", "x3", "x4", "x8", "memory");
  return result;
}
#else
inline long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
  const long result = ::syscall(number, a, b, c, d, e);
  return result < 0 ? -errno : result;
}
#endif

[[gnu::always_inline]] inline long as_argument(const void* p) { return reinterpret_cast<long>(p); }

}  // namespace dlock::run
