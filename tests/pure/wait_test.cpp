// SPDX-License-Identifier: Apache-2.0
#include "util/wait.hpp"
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cstdio>
#include <thread>
#include "support/own_clock.hpp"
#include "util/fd.hpp"

using namespace dlock;
using namespace std::chrono_literals;

namespace {

double awake() {  // seconds
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

bool sleeps(pid_t thread) {
  std::FILE* f = std::fopen(fmt::format("/proc/self/task/{}/stat", thread).c_str(), "re");
  char state = '?';
  if (!f || std::fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = '?';
  if (f) std::fclose(f);
  return state == 'S';
}

}  // namespace

TEST_CASE("a wait counts the time in suspend") {
  const Fd never(::eventfd(0, EFD_CLOEXEC));
  pollfd fds[] = {{never.get(), POLLIN, 0}, {-1, POLLIN, 0}};
  const pid_t waiter = ::gettid();
  const Deadline until = later(Clock::now(), 1h);
  std::thread suspended([&] {
    while (!sleeps(waiter)) std::this_thread::sleep_for(1ms);
    test::machine.suspend(1h);
  });
  const double began = awake();
  CHECK(wait_until(fds, until) == 0);
  CHECK(awake() - began < 20);  // 1 s, plus the delay of a loaded machine
  CHECK(Clock::now() >= until);
  suspended.join();
}

TEST_CASE("a wait ends with its event, at once when its deadline has passed, and not before it") {
  const Fd event(::eventfd(0, EFD_CLOEXEC));
  pollfd fds[] = {{-1, POLLIN, 0}, {event.get(), POLLIN, 0}};
  CHECK(wait_until(fds, Clock::now() - 1s) == 0);
  CHECK(wait_until(fds, Deadline{}) == 0);
  const Deadline soon = later(Clock::now(), 5ms);
  CHECK(wait_until(fds, soon) == 0);
  CHECK(Clock::now() >= soon);
  REQUIRE(::eventfd_write(event.get(), 1) == 0);
  CHECK(wait_until(fds, no_deadline) == 1);
  CHECK(fds[1].revents == POLLIN);
  // the deadline has passed, but the event has happened: it counts
  CHECK(wait_until(fds, Deadline{}) == 1);
}
