// SPDX-License-Identifier: Apache-2.0
#include "job/entry.hpp"
#include <poll.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <csignal>

using namespace dlock::run;

namespace {

bool readable(const IncomingSignals& signals) {
  pollfd p{signals.fd(), POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

}  // namespace

TEST_CASE("an ignored signal is skipped, and wakes nobody a second time") {
  sigset_t both, before;
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1);
  sigaddset(&both, SIGUSR2);
  ::sigprocmask(SIG_BLOCK, &both, &before);
  void (*const disposition)(int) = ::signal(SIGUSR1, SIG_IGN);
  IncomingSignals signals(both);
  REQUIRE_FALSE(signals.failed());
  ::kill(::getpid(), SIGUSR1);
  CHECK_FALSE(signals.next());
  ::kill(::getpid(), SIGUSR1);
  CHECK_FALSE(readable(signals));
  ::kill(::getpid(), SIGUSR2);
  CHECK(readable(signals));
  const auto got = signals.next();
  CHECK((got && got->ssi_signo == SIGUSR2));
  CHECK_FALSE(signals.next());
  ::sigprocmask(SIG_SETMASK, &before, nullptr);  // drops the SIGUSR1 that is pending
  ::signal(SIGUSR1, disposition);
}
