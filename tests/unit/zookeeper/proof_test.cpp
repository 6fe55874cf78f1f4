// SPDX-License-Identifier: Apache-2.0
#include "zookeeper/proof.hpp"
#include <catch2/catch.hpp>

using namespace dlock;
using namespace dlock::zookeeper;
using namespace std::chrono_literals;

namespace {
constexpr Deadline zero{std::chrono::hours{1}};
constexpr Duration timeout = 10s;
Duration after(const Proof& p, Deadline from) { return std::chrono::duration_cast<Duration>(p.until() - from); }
}  // namespace

TEST_CASE("a new session lives from its making") {
  Proof p{Duration{}};
  p.attached(zero, timeout);
  CHECK(p.until() == lease_end(zero, timeout));
}

TEST_CASE("answers prove nothing, committed writes do") {
  Proof p{1s};
  p.attached(zero, timeout);
  for (int i = 1; i < 50; ++i) p.heard(zero + i * 100ms);
  CHECK(p.until() == lease_end(zero, timeout));
  p.committed(zero + 5s);
  // half a tick, and the gap between packets
  CHECK(after(p, zero) == 5s + timeout - 500ms - 100ms - drift(timeout));
}

TEST_CASE("renewals a sixth of the timeout apart prove what the start rule counts on, whatever the tick") {
  Proof p{Duration{}};
  p.attached(zero, timeout);
  Deadline sent = zero;
  for (int i = 0; i < 20; ++i) {
    const Deadline before = p.until();
    sent += proven_of(timeout) / 3;
    p.committed(sent);
    CHECK(p.until() >= before);
    CHECK(after(p, sent) >= proven_of(timeout));
    CHECK(after(p, sent) <= timeout);
  }
  CHECK(after(p, sent) == timeout - timeout / 4 - proven_of(timeout) / 3 - drift(timeout));
}

TEST_CASE("a long silence before the write shortens what it proves") {
  Proof p{2s};
  p.attached(zero, timeout);
  p.committed(zero + 1s);
  p.committed(zero + 5s);
  CHECK(after(p, zero) == 5s + timeout - 1s - 4s - drift(timeout));
  p.committed(zero + 5s + 1ms);  // right after: the silence still lies in the half tick before
  CHECK(after(p, zero) == 5s + 1ms + timeout - 1s - 4s - drift(timeout));
  p.committed(zero + 5s + 1200ms);
  CHECK(after(p, zero) == 6200ms + timeout - 1s - 1199ms - drift(timeout));
}

TEST_CASE("a session that is taken up again with a shorter timeout lives shorter") {
  Proof p{Duration{}};
  p.attached(zero, timeout);
  p.attached(zero + 1s, 2s);
  CHECK(p.until() == lease_end(zero + 1s, 2s));
  p.committed(zero + 500ms);  // sent before that
  CHECK(p.until() == lease_end(zero + 1s, 2s));
}
