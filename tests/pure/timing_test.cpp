// SPDX-License-Identifier: Apache-2.0
// The start rule: a renewal, one exchange with the store, TERM to KILL and the margin must fit into
// the proven part of a lease.
#include "run/timing.hpp"
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include "core/duration.hpp"

using namespace dlock;
using namespace dlock::run;
using namespace std::chrono_literals;

namespace {

struct Case {
  Duration ttl;
  std::optional<Duration> op_timeout, kill_after;
  bool good;
};

Result<Timing> plan(const Case& c) {
  return plan_timing({c.ttl, c.op_timeout, c.kill_after}, c.ttl - drift(c.ttl), EndsBy::lease);
}

Duration sum(const Timing& t) { return t.renew_every + t.op_timeout + t.kill_after + t.margin; }

// The duration after `name up to` in a message, if it has that.
std::optional<Duration> largest(const std::string& message, const std::string& name) {
  const std::string words = name + " up to ";
  const auto at = message.find(words);
  if (at == std::string::npos) return std::nullopt;
  const auto begin = at + words.size();
  return parse_duration(message.substr(begin, message.find_first_of(", ", begin) - begin)).value();
}

}  // namespace

TEST_CASE("timing: plans that are accepted and refused") {
  const auto [ttl, op_timeout, kill_after, good] = GENERATE(values<Case>({
      {30s, {}, {}, true},    {2s, {}, {}, true},      {1999ms, {}, {}, true},
      {1700ms, {}, {}, true}, {1600ms, {}, {}, false},  // half a second of margin does not fit
      {500ms, {}, {}, false}, {1s, 10ms, 0s, true},    {30s, {}, 13s, true},
      {30s, {}, 14s, false},  {30s, {}, 30s, false},   {30s, {}, 0s, true},  // KILL at once
      {30s, 13s, {}, true},   {30s, 14s, {}, false},   {30s, 1ms, {}, true},
      {30s, 0s, {}, false},   {2s, {}, 400ms, true},   {2s, {}, 600ms, false},
      {24h, {}, {}, true},    {24h, {}, 10h, true},    {24h, {}, 16h, false},
  }));
  CAPTURE(format_duration(ttl));
  const auto t = plan({ttl, op_timeout, kill_after, good});
  REQUIRE(t.has_value() == good);
  if (!good) CHECK(t.error().code == Errc::usage);
}

TEST_CASE("timing: the parts of a plan") {
  const auto t = plan_timing({30s, {}, {}}, 30s - drift(30s), EndsBy::lease).value();
  CHECK(t.leased);
  CHECK(t.proven == 29698ms);
  CHECK(t.renew_every == t.proven / 3);
  CHECK(t.op_timeout == t.proven / 6);
  CHECK(t.kill_after == 5s);
  CHECK(t.margin == t.proven / 20);

  const auto small = plan_timing({2s, {}, {}}, 2s - drift(2s), EndsBy::lease).value();
  CHECK(small.kill_after == small.proven / 5);
  CHECK(small.margin == 500ms);

  const auto large = plan_timing({10min, {}, {}}, 10min - drift(10min), EndsBy::lease).value();
  CHECK(large.op_timeout == 5s);
  CHECK(large.kill_after == 5s);
}

TEST_CASE("timing: the start rule uses the proven time of a recipe that proves less than the ttl") {
  // Half of a session of 10 s is proven: 7 s of --kill-after fit into the ttl, but not into the
  // proven time.
  CHECK(plan_timing({10s, {}, 7s}, 10s - drift(10s), EndsBy::lease).has_value() == false);
  CHECK(plan_timing({10s, {}, 2s}, 4900ms, EndsBy::lease).has_value() == false);
  CHECK(plan_timing({10s, {}, {}}, 4900ms, EndsBy::lease).has_value());
  CHECK(plan_timing({10s, {}, {}}, 4900ms, EndsBy::lease)->renew_every == Duration(4900ms) / 3);
}

TEST_CASE("timing: a lock without a deadline has no start rule") {
  const auto t = plan_timing({10ms, {}, {}}, 10ms, EndsBy::descriptor);
  REQUIRE(t);
  CHECK_FALSE(t->leased);
  CHECK(t->kill_after == 5s);
  CHECK(plan_timing({1s, {}, 1h}, 1s, EndsBy::descriptor)->kill_after == 1h);
}

TEST_CASE("timing: the message names the options, their values and values that would fit") {
  const auto message = plan({30s, {}, 20s, false}).error().message;
  CHECK_THAT(message, Catch::Contains("--ttl 30s") && Catch::Contains("--kill-after 20s") &&
                          Catch::Contains("--op-timeout"));
}

TEST_CASE("timing: every plan fits, and so does every value that a refusal suggests") {
  const unsigned seed = Catch::rngSeed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto any = [&](Duration least, Duration most) {
    return Duration(
        std::uniform_int_distribution<Duration::rep>(least.count(), most.count())(random));
  };
  int ways = 0;
  for (int i = 0; i < 20'000; ++i) {
    Case c{any(2s, 90s), {}, any(0s, 60s), false};
    if (i % 2) c.op_timeout = any(1ms, 40s);
    const auto t = plan(c);
    if (t) {
      CHECK(sum(*t) <= t->proven);
      CHECK(t->margin >= 500ms);
      // one renewal before TERM
      CHECK(t->renew_every + t->op_timeout < t->proven - t->margin - t->kill_after + 1us);
      continue;
    }
    CAPTURE(t.error().message);
    const auto kill_after = largest(t.error().message, "--kill-after");
    Case offered = c;
    offered.kill_after = kill_after;
    if (kill_after) CHECK(plan(offered).has_value());
    const auto op_timeout = largest(t.error().message, "--op-timeout");
    Case other = c;
    other.op_timeout = op_timeout;
    if (op_timeout) CHECK(plan(other).has_value());
    ways += (kill_after ? 1 : 0) + (op_timeout ? 1 : 0);
  }
  CHECK(ways > 1000);
}

TEST_CASE(
    "timing: the next renewal is due a third after the last one, however far the deadline is") {
  const run::Timing t{.proven = 15s, .renew_every = 5s};
  const Deadline now{1h};
  CHECK(next_renewal(t, no_deadline, now) == now + 5s);
  CHECK(next_renewal(t, now + 15s, now) == now + 5s);
  CHECK(next_renewal(t, now + 13s, now) == now + 3s);  // its request was sent 2 s ago
  CHECK(next_renewal(t, now + 30s, now) == now + 5s);  // a longer proven time
  // a shorter one: soon, but not without a pause
  CHECK(next_renewal(t, now + 8s, now) == now + 625ms);
  CHECK(next_renewal(t, now - 8s, now) == now + 625ms);
}
