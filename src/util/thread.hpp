// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <csignal>
#include <thread>
#include <utility>

namespace dlock {

// Starts a thread with every signal blocked, so that no signal is delivered to it. Throws
// std::system_error if no thread is available.
template <class Body>
std::thread thread_without_signals(Body body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};
  return std::thread(std::move(body));
}

}  // namespace dlock
