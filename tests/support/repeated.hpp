// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dlock::test {

// How often something random is tried: with sanitizers, which take a multiple of the time, a
// quarter of `n` times.
template <class Number>
constexpr Number repeated(Number n) {
#ifdef DLOCK_SANITIZED
  return n / 4;
#else
  return n;
#endif
}

}  // namespace dlock::test
