// SPDX-License-Identifier: Apache-2.0
// `dlock bench --scenario crash`, on the fake store, which each process has for itself, so that
// whoever asks second is granted at once.
#include <unistd.h>
#include <catch2/catch.hpp>
#include <chrono>
#include "bench/client.hpp"
#include "support/catch/run.hpp"
#include "support/fake_backend.hpp"
#include "util/wait.hpp"

using namespace dlock;
using namespace std::chrono_literals;

namespace {

// What a crash says of a holder that renews nothing, whose lease ends before another is granted the
// lock, or long after.
bench::Figures figures_of(Duration ttl, bool ends) {
  bench::Plan plan;
  plan.crash_ttl = ttl;
  bench::Target target;
  target.backend = "fake";
  target.recipe = "lease";
  target.traits = &fake::factory.recipes[0];
  const auto open = fake::factory.prepare(Url::parse("fake:?renew_fails_after=0").value(),
                                          fake::factory.recipes[0], {});
  target.open = [tester = ::getpid(), ttl, ends, open = open.value()](Duration op_timeout,
                                                                      int interrupt_fd) {
    if (ends && ::getpid() == tester) wait_until({}, later(Clock::now(), ttl));
    return open(op_timeout, interrupt_fd);
  };
  bench::Signals signals;
  bench::Figures figures;
  const auto took = bench::crash_once(plan, target, signals, figures);
  REQUIRE(took);
  CHECK(*took);
  return figures;
}

}  // namespace

int main(int argc, char** argv) { return dlock::test::run_catch(argc, argv); }

TEST_CASE("crash: a grant behind the end of the holder's lease is no overlap, one before it is") {
  const bench::Figures late = figures_of(50ms, true), early = figures_of(1h, false);
  CHECK(late.overlaps == 0);
  CHECK(late.late == 1);
  CHECK(early.overlaps == 1);
  CHECK(early.late == 0);
}
