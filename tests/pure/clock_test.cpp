// SPDX-License-Identifier: Apache-2.0
#include "core/clock.hpp"
#include <catch2/catch.hpp>

using namespace dlock;
using namespace std::chrono_literals;

TEST_CASE("later never overflows, whatever the span") {
  const Deadline now{1h};
  CHECK(later(now, 5s) == now + 5s);
  CHECK(later(now, -5s) == now - 5s);
  CHECK(later(now, Duration::max()) == no_deadline);
  CHECK(later(now, Duration::min()) < now);
  CHECK(later(Deadline::min(), -1s) == Deadline::min());
  CHECK(later(Deadline::min() + 1ns, -1s) == Deadline::min());
  for (const Duration span : {Duration{-1s}, Duration{0}, Duration::min(), Duration::max()})
    CHECK(later(no_deadline, span) == no_deadline);
  CHECK(later(no_deadline - 1ns, 1s) == no_deadline);
}

TEST_CASE("one exchange gets a sixth of what is proven, and at most 5s") {
  CHECK(usual_op_timeout(6s) == 1s);
  CHECK(usual_op_timeout(30s) == 5s);
  CHECK(usual_op_timeout(1h) == 5s);
}
