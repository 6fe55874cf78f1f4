// SPDX-License-Identifier: Apache-2.0
// Wall clocks of masters jump by an hour. A minority changes nothing; a majority may allow a second
// holder, with a higher token.
#include <cstdio>
#include "redlock_faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

TestDirectory& directory() {
  static TestDirectory made;
  return made;
}
std::string file_of(std::size_t master) {
  return fmt::format("{}/shift{}", directory().path(), master);
}
std::vector<std::string> environment(std::size_t master) {
  std::FILE* f = std::fopen(file_of(master).c_str(), "we");
  const std::string zeros(4096, '\0');
  std::fwrite(zeros.data(), 1, zeros.size(), f);
  std::fclose(f);
  return {"LD_PRELOAD=" CLOCK_SHIFT, "CLOCK_SHIFT_FILE=" + file_of(master)};
}
void shift(std::size_t master, std::chrono::seconds by) {
  const std::int64_t ns = std::chrono::nanoseconds{by}.count();
  std::FILE* f = std::fopen(file_of(master).c_str(), "r+e");
  REQUIRE(f);
  std::fwrite(&ns, sizeof ns, 1, f);
  std::fclose(f);
}

}  // namespace

TEST_CASE(
    "clocks of two of five masters jump an hour ahead or back: the holder keeps the lock, no "
    "second grant") {
  for (const auto by : {std::chrono::seconds{1h}, std::chrono::seconds{-1h}}) {
    CAPTURE(by.count());
    RedlockMasters m{{.environment = environment}};
    auto holder = open_redlock(m.url(), quick()), other = open_redlock(m.url(), quick());
    const Key k = key("minority");
    const Lease held = acquire_or_fail(*holder, request(k, 30s));
    REQUIRE(has_all_votes(m, *holder, held, "minority", 30s));
    shift(0, by);
    shift(3, by);
    CHECK(votes_of(m, "minority", held.owner) >= 3);
    Request impatient = request(k, 30s);
    impatient.wait = false;
    const auto p = (*other->enqueue(impatient))->poll(0s);
    INFO((p ? "" : p.error().message));
    REQUIRE(p);
    CHECK(std::holds_alternative<Busy>(*p));
    CHECK(kept(holder->renew(held, 30s)));
    CHECK(holder->check(k, held.token) == Validity::valid);
    // Ahead: it had expired at the two, and was taken again there.
    CHECK(eventually(5s, [&] {
      const auto again = holder->renew(held, 30s);
      INFO((again ? "lost" : again.error().message));
      REQUIRE(kept(again));
      return votes_of(m, "minority", held.owner) == 5;
    }));
    CHECK(holder->release(held) == Released::yes);
    const Lease next = granted_within(*other, request(k, 30s), 5s);
    CHECK(next.token > held.token);
    shift(0, 0s);
    shift(3, 0s);
    CHECK(other->release(next) == Released::yes);
    CHECK(granted_within(*holder, request(k, 30s), 5s).token > next.token);
  }
}

TEST_CASE(
    "clocks of three of five masters jump an hour ahead: a second holder with a higher token, the "
    "first is told with its "
    "renewal") {
  RedlockMasters m{{.environment = environment}};
  auto one = open_redlock(m.url(), quick()), two = open_redlock(m.url(), quick());
  const Key k = key("majority");
  const Lease first = acquire_or_fail(*one, request(k, 30s));
  REQUIRE(has_all_votes(m, *one, first, "majority", 30s));
  for (const std::size_t i : {1, 2, 4}) shift(i, 1h);
  const Lease second = granted_within(*two, request(k, 30s), 5s);
  CHECK(Clock::now() < first.deadline);  // both believe that they hold: this is the stated weakness
  CHECK(second.token > first.token);
  CHECK(lost(one->renew(first, 30s)));
  CHECK(two->check(k, second.token) == Validity::valid);
  CHECK(two->check(k, first.token) == Validity::stale);
  CHECK(kept(two->renew(second, 30s)));
  CHECK(two->release(second) == Released::yes);
}

TEST_CASE(
    "clocks of three of five masters jump an hour back: a dead holder's lease does not end, a "
    "forced release ends it") {
  RedlockMasters m{{.environment = environment}};
  auto one = open_redlock(m.url(), quick()), two = open_redlock(m.url(), quick());
  const Key k = key("stuck");
  const Lease first = acquire_or_fail(*one, request(k, 4s));
  REQUIRE(has_all_votes(m, *one, first, "stuck", 4s));
  for (const std::size_t i : {0, 2, 3}) shift(i, -1h);
  // the others let it expire in time
  CHECK(eventually(10s, [&] { return votes_of(m, "stuck", first.owner) == 3; }));
  const auto seen = two->inspect(k).value();
  REQUIRE(seen);
  REQUIRE(seen->holders.size() == 1);
  CHECK(*seen->holders[0].remaining > 50min);
  CHECK(two->force_release(k, first.token) == Released::yes);
  CHECK(granted_within(*two, request(k, 30s), 5s).token > first.token);
}
