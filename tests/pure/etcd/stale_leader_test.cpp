// SPDX-License-Identifier: Apache-2.0
// A model of how etcd ends leases, with leaders that are stopped and go on, searched at random: a
// lock that is renewed by new leases never ends before its holder's deadline; by keepalives it
// does.
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include "core/clock.hpp"

using namespace dlock;

namespace {

using Time = std::int64_t;  // milliseconds

enum class Proof { new_lease, keepalive };

// What is replicated is applied by every member that runs. Whoever leads keeps, in its memory
// alone, when each lease ends: from when it applied it, was elected, or got a keepalive.
class Cluster {
 public:
  Cluster(std::mt19937& random, Time ttl) : random_(random), ttl_(ttl) {}

  // Replicated: a new lease, and the key moves to it.
  bool move(int lease, Time now) {
    if (!has_leader()) return false;
    commit([=](Cluster& c) { c.key_ = lease; }, now);
    for (std::size_t i = 0; i < 3; ++i) {
      if (stopped_[i]) continue;  // it applies this when it goes on
      ends_[i][lease] = now + ttl_;
    }
    known_[lease] = true;
    return true;
  }
  // Not replicated: the clock of the member that leads.
  bool keep_alive(int lease, Time now) {
    if (!has_leader() || !known_[lease]) return false;
    ends_[leader_][lease] = now + ttl_;
    return true;
  }
  void stop_leader(Time now) {
    stopped_[leader_] = true;
    stale_ = leader_;
    elected_at_ = now + 1000 + pick(1000);
    leads_ = false;
  }
  bool has_stopped() const { return stale_ < 3; }
  // It takes itself for the leader still, and its clock went on: it forwards what it has to say of
  // leases before it applies what the others have decided.
  void go_on(Time now) {
    for (const auto& [lease, end] : ends_[stale_])
      if (now >= end) revoke(lease, now);
    stopped_[stale_] = false;
    if (!leads_) return void(stale_ = 3);
    ends_[stale_].clear();
    stale_ = 3;
  }
  void step(Time now) {
    if (!leads_ && now >= elected_at_) {
      if (has_stopped()) leader_ = (stale_ + 1 + pick(2)) % 3;
      leads_ = true;
      for (const auto& [lease, known] : known_)
        if (known) ends_[leader_][lease] = now + ttl_;
    }
    if (leads_)
      for (const auto& [lease, end] : ends_[leader_])
        if (now >= end && known_[lease]) revoke(lease, now);
    while (!log_.empty() && log_.front().first <= now && leads_) {
      log_.front().second(*this);
      log_.pop_front();
    }
  }
  bool has_key() const { return key_ != 0; }

 private:
  bool has_leader() const { return leads_; }
  std::size_t pick(std::size_t n) { return random_() % n; }
  template <class Change>
  void commit(Change change, Time) {
    change(*this);
  }
  // Proposed now, and carried out a moment later.
  void revoke(int lease, Time now) {
    log_.emplace_back(now + static_cast<Time>(pick(300)), [lease](Cluster& c) {
      c.known_[lease] = false;
      if (c.key_ == lease) c.key_ = 0;
    });
  }

  std::mt19937& random_;
  const Time ttl_;
  std::array<bool, 3> stopped_{};
  std::array<std::map<int, Time>, 3> ends_;
  std::map<int, bool> known_;
  std::deque<std::pair<Time, std::function<void(Cluster&)>>> log_;
  std::size_t leader_ = 0, stale_ = 3;
  bool leads_ = true;
  Time elected_at_ = 0;
  int key_ = 0;
};

// How many milliseconds before the deadline of its holder the key was gone; 0: it was not.
Time lost_early(std::uint32_t seed, Proof proof) {
  std::mt19937 random(seed);
  const Time ttl = 4000 + static_cast<Time>(random() % 16000);
  const auto allowed = drift(std::chrono::milliseconds{ttl}) / std::chrono::milliseconds{1};
  Cluster cluster(random, ttl);
  int lease = 1;
  REQUIRE(cluster.move(lease, 0));
  Time deadline = ttl - allowed, renew_at = ttl / 3;
  Time stop_at = static_cast<Time>(random() % static_cast<std::uint32_t>(2 * ttl)), go_on_at = 0;
  for (Time now = 0; now < 8 * ttl; now += 100) {
    cluster.step(now);
    if (!cluster.has_key()) return std::max<Time>(0, deadline - now);
    if (now >= deadline) return 0;  // the job is dead
    if (now >= renew_at) {
      const bool kept =
          proof == Proof::new_lease ? cluster.move(++lease, now) : cluster.keep_alive(lease, now);
      // the answer may be late; what counts is when it was sent
      if (kept) deadline = now - static_cast<Time>(random() % 50) + ttl - allowed;
      renew_at = now + (kept ? ttl / 3 : 200);
    }
    if (!cluster.has_stopped() && now >= stop_at) {
      cluster.stop_leader(now);
      go_on_at = now + static_cast<Time>(random() % static_cast<std::uint32_t>(2 * ttl));
    } else if (cluster.has_stopped() && now >= go_on_at) {
      cluster.go_on(now);
      stop_at = now + static_cast<Time>(random() % static_cast<std::uint32_t>(2 * ttl));
    }
  }
  return 0;
}

int violations(Proof proof, std::uint32_t seeds) {
  int n = 0;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) n += lost_early(seed, proof) > 0;
  return n;
}

}  // namespace

TEST_CASE("stale leaders: renewed by new leases, no lock ends before its deadline") {
  const char* seeds = std::getenv("DLOCK_TEST_SEEDS");
  CHECK(violations(Proof::new_lease, seeds ? static_cast<std::uint32_t>(std::atoi(seeds)) : 1000) ==
        0);
}

TEST_CASE("stale leaders: renewed by keepalives, locks do; so the model can find it") {
  CHECK(violations(Proof::keepalive, 500) > 50);
}
