// SPDX-License-Identifier: Apache-2.0
#include "bench/fail_if.hpp"
#include <catch2/catch.hpp>
#include "bench/figures.hpp"

using namespace dlock;
using bench::FailIf;
using bench::Figures;
using bench::Latency;

namespace {

Figures figures() {
  Figures f;
  f.backend = "redis";
  f.recipe = "fair";
  f.scenario = bench::Scenario::handoff;
  f.rounds.resize(1);
  f.rounds[0].grants_per_s = 1000;
  f.latency[static_cast<std::size_t>(Latency::acquire)].record(std::chrono::milliseconds{4});
  f.errors = 2;
  return f;
}

bool holds(std::string_view text) {
  const auto e = FailIf::parse(text);
  REQUIRE(e);
  return e->matches(figures()) && e->holds(figures());
}

}  // namespace

TEST_CASE("figures against bounds") {
  CHECK(holds("acquire.p99>3ms"));
  CHECK_FALSE(holds("acquire.p99>5ms"));
  CHECK(holds("acquire.max<=4ms"));
  CHECK(holds("redis.fair.handoff.acquire.p50>=3999us"));
  CHECK(holds("handoff.grants_per_s<1500"));
  CHECK_FALSE(holds("grants_per_s<1000"));
  CHECK(holds("errors>0"));
  CHECK_FALSE(holds("overlaps>0"));
}

TEST_CASE("names choose the runs") {
  CHECK_FALSE(holds("file.errors>0"));
  CHECK_FALSE(holds("redis.set.errors>0"));
  CHECK_FALSE(holds("uncontended.errors>0"));
  CHECK(holds("fair.errors>0"));
}

TEST_CASE("a figure that this scenario or recipe does not have does not fail") {
  for (const char* text :
       {"leases<10", "wakeups_per_grant<1", "takeover.max>0us", "renew.p50>0us"}) {
    CAPTURE(text);
    CHECK_FALSE(FailIf::parse(text)->matches(figures()));
  }
}

TEST_CASE("a latency without a single sample fails: nothing was granted") {
  CHECK(holds("release.p99>5s"));
  CHECK(FailIf::parse("release.p99>5s")->seen(figures()) == "none");
}

TEST_CASE("values in the report") {
  CHECK(FailIf::parse("acquire.max>1ms")->seen(figures()) == "4.00ms");
  CHECK(FailIf::parse("errors>1")->seen(figures()) == "2.00");
}

TEST_CASE("invalid expressions are refused") {
  for (const char* text :
       {"", "errors", ">5", "errors>", "errors>x", "nope>1", "acquire.p98>1ms", "acquire>1ms",
        "acquire.p99>5", "acquire.p99>5 ms", "errors=5", "errors>1ms"}) {
    CAPTURE(text);
    const auto e = FailIf::parse(text);
    REQUIRE_FALSE(e);
    CHECK(e.error().code == Errc::usage);
  }
}
