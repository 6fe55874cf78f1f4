// SPDX-License-Identifier: Apache-2.0
// A lease above restart_grace: what the refusal advises is accepted.
#include <catch2/catch.hpp>
#include <random>
#include "core/duration.hpp"
#include "redis/wire/facts.hpp"

using namespace dlock;
using namespace dlock::redis;
using namespace std::chrono_literals;

TEST_CASE(
    "grace: the value that a refusal advises is accepted, and is the smallest that can be said") {
  const auto advised = [&](LeaseSpan lease, Duration grace) {
    const auto ok = within_grace(lease, grace);
    REQUIRE_FALSE(ok);
    const Error& refused = ok.error();
    INFO(refused.message);
    CHECK(refused.code == Errc::usage);
    const std::string words = "or put restart_grace=";
    const auto at = refused.message.find(words);
    REQUIRE(at != std::string::npos);
    const auto begin = at + words.size();
    return parse_duration(refused.message.substr(begin, refused.message.find(' ', begin) - begin))
        .value();
  };
  CHECK(advised({60'400ms, {}}, 60s) == 61s);
  CHECK(advised({3630s, {}}, 60s) == 61min);
  CHECK(advised({50s, 20s}, 60s) == 70s);
  CHECK(advised({1h, {}}, 60s) == 1h);
  CHECK(within_grace({30s, {}}, 30s));
  CHECK(within_grace({20s, 10s}, 30s));
  CHECK(within_grace({1h, 60s}, 0s));  // the operator's word
  std::mt19937 random{1};
  const auto any = [&](Duration most) {
    return Duration{std::uniform_int_distribution<Duration::rep>(1, most.count())(random)};
  };
  for (int i = 0; i < 20'000; ++i) {
    const LeaseSpan lease{any(i % 2 ? Duration{200s} : Duration{100h}),
                          i % 3 ? Duration{} : any(60s)};
    const Duration grace = any(lease.whole());
    if (grace == lease.whole()) continue;
    const Duration followed = advised(lease, grace);
    CAPTURE(lease.ttl.count(), lease.lock_delay.count());
    CHECK(within_grace(lease, followed));
    CHECK(followed - lease.whole() < 1h);
  }
}
