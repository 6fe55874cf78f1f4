// SPDX-License-Identifier: Apache-2.0
// Masters that may have forgotten a vote: what is read there. The grace is the default.
#include "redlock_faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

template <class T>
void unknown(const Result<T>& answer) {
  REQUIRE_FALSE(answer.has_value());
  INFO(answer.error().message);
  CHECK(answer.error().code == Errc::unavailable);
}

}  // namespace

TEST_CASE("forgotten: a master in its grace has no vote for free") {
  RedlockMasters m{{.uptime = std::chrono::seconds{3600}}};
  const std::string url = m.url("?prefix=jobs:");
  const Key k = key("k"), other = key("other");
  auto holder = open_redlock(url, patient());
  const Lease lease = granted_within(*holder, request(k, 30s));
  REQUIRE(has_all_votes(m, *holder, lease, "jobs:k", 30s));

  for (const std::size_t i : {0, 1}) restart_wiped(*m.servers[i]);
  {
    // A master that is slow to answer is as unknown as one that forgot, so ask until all do.
    auto b = open_redlock(url, patient());
    std::optional<KeyView> seen;
    REQUIRE(becomes([&] {
      seen = b->inspect(k).value();
      return seen && seen->unknown_reason.empty();
    }));
    REQUIRE(seen->holders.size() == 1);
    CHECK(seen->holders[0].token == lease.token);
    CHECK(becomes([&] { return !b->inspect(other).value(); }));  // three say so
    CHECK(becomes([&] { return list(*b).value().size() == 1 && !b->health().in_grace_period; }));
    CHECK(becomes([&] { return b->force_release(other, std::nullopt) == Released::was_not_held; }));
    CHECK(becomes([&] { return b->revoke(other) == Released::was_not_held; }));
  }
  restart_wiped(*m.servers[2]);
  auto b = open_redlock(url, patient());
  std::optional<KeyView> seen;
  REQUIRE(becomes([&] {
    seen = b->inspect(k).value();
    return seen && seen->unknown_reason.find("3 of 5 masters") != std::string::npos;
  }));
  CHECK(seen->unknown_reason.find("nothing is granted for") != std::string::npos);
  CHECK(seen->holders.empty());
  CHECK(seen->fence == 0);  // a newer one may be forgotten
  unknown(b->revoke(k));
  const auto never = b->inspect(other).value();
  REQUIRE(never.has_value());
  CHECK(never->key == "other");
  CHECK_FALSE(never->unknown_reason.empty());
  unknown(b->revoke(other));
  unknown(b->force_release(other, std::nullopt));
  const auto all = list(*b).value();
  REQUIRE(all.size() == 1);
  CHECK_FALSE(all[0].unknown_reason.empty());
  CHECK(b->health().in_grace_period);
}

TEST_CASE("forgotten: no answer of so many that the others are no majority is no free key either") {
  RedlockMasters m;
  auto b = open_redlock(m.url(), quick(300ms, 300ms));
  const Key k = key("k");
  for (const std::size_t i : {0, 1}) m.servers[i]->kill();
  CHECK(becomes([&] {  // three say that it is free
    const auto seen = b->inspect(k);
    return seen && !*seen;
  }));
  m.servers[2]->command({"SET", "k", "a foreign value", "PX", "600000"});
  const auto seen = answered([&] { return b->inspect(k); });  // two may have that, too
  REQUIRE(seen.has_value());
  CHECK(seen->holders.empty());
  CHECK(seen->unknown_reason.find("do not answer") != std::string::npos);
}
