// SPDX-License-Identifier: Apache-2.0
// The server's clock jumps by an hour. Leases end early or late; tokens rise, and two clients never
// both believe that they hold.
#include "faults.hpp"
#include "support/clock_file.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("a clock that jumps by an hour") {
  ClockFile clock;
  MariadbServer own{
      {.environment = {"LD_PRELOAD=" CLOCK_SHIFT, "CLOCK_SHIFT_FILE=" + clock.path()}}};
  Database db{own};
  const auto a = open_mysql(db.url()), b = open_mysql(db.url());
  const auto now = [&] { return std::stoll(db.value("SELECT UNIX_TIMESTAMP()")); };
  const long long before = now();

  const Lease one = acquire_or_fail(*a, request(key("k"), 30s));
  clock.set_wall(1h);
  REQUIRE(now() >= before + 3590);
  // It has expired on the clock that decides, and its holder is told so.
  const Lease two = acquire_or_fail(*b, request(key("k"), 30s));
  CHECK(two.token > one.token);
  CHECK(lost(a->renew(one, 30s)));

  clock.set_wall(-1h);
  REQUIRE(now() <= before - 3590);
  // Two lasts longer now; its holder can still renew and release.
  auto w = waiter(*a, request(key("k"), 30s));
  CHECK(waits(*w, 20ms));
  const auto seen = b->inspect(key("k")).value().value();
  CHECK_FALSE(seen.notes.empty());
  CHECK(kept(b->renew(two, 30s)));
  CHECK(b->release(two).value() == Released::yes);
  const Lease three = granted_within(*w);
  CHECK(three.token > two.token);  // though the clock is behind
  a->release(three).value();
  // free, so in one statement
  CHECK(acquire_or_fail(*b, request(key("k"), 30s)).token > three.token);
}
