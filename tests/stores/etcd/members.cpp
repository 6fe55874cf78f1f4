// SPDX-License-Identifier: Apache-2.0
// Three members, of which one is stopped, killed or cut off.
#include <atomic>
#include <semaphore>
#include <thread>
#include <vector>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// Holds one lock by renewals, as the keeper does, until end(). Lost before its deadline, or not
// renewed before it: a fault of the store or of ours.
struct Holder {
  Holder(const std::string& url, const std::string& name, Duration ttl)
      : backend(open_etcd(url, quick(ttl / 6))), lease(take(*backend, request(key(name), ttl))) {
    thread = std::thread([this, ttl] {
      while (!stop.try_acquire_for(ttl / 3)) {
        for (bool done = false; !done;) {
          const auto r = backend->renew(lease, ttl);
          const Deadline now = Clock::now();
          if (kept(r)) lease = std::get<Kept>(*r).lease;
          if (lost(r) && now < lease.deadline) lost_early = true;
          if (now >= lease.deadline) late = true;
          done = r.has_value() || late;
        }
        if (lost_early || late) return;
      }
    });
  }
  ~Holder() { end(); }
  void end() {  // then `backend` is free
    stop.release();
    if (thread.joinable()) thread.join();
  }
  std::unique_ptr<Backend> backend;
  Lease lease;
  std::counting_semaphore<> stop{0};
  std::atomic<bool> lost_early{false}, late{false};
  std::thread thread;
};

// Writes at one member for as long as it lives: how long the store needed for that at most.
struct Witness {
  explicit Witness(const std::string& url) : backend(open_etcd(url, quick(10s))) {
    thread = std::thread([this] {
      for (int i = 0; !stop.try_acquire_for(50ms); ++i) {
        const Deadline began = Clock::now();
        take(*backend, request(key(fmt::format("w{}", i)), 30s));
        longest = std::max<Clock::duration>(longest, Clock::now() - began);
      }
    });
  }
  ~Witness() { (void)end(); }
  Clock::duration end() {
    stop.release();
    if (thread.joinable()) thread.join();
    return longest;
  }
  std::unique_ptr<Backend> backend;
  std::counting_semaphore<> stop{0};
  Clock::duration longest{};
  std::thread thread;
};

}  // namespace

// A leader that was stopped takes leases for expired when it goes on, by its own clock, and has
// them revoked. With renewals by keepalive most of these locks end.
TEST_CASE("a leader that is stopped and goes on ends no lock before its deadline") {
  constexpr Duration ttl = 5s;
  // On disk: with its data in memory such a leader learns in time that it leads no more.
  EtcdServer cluster{{.members = 3, .durable = true, .flags = {}}};
  for (int round = 0; round < 2; ++round) {
    const std::size_t leader = cluster.leader(), other = cluster.follower(),
                      third = 3 - leader - other;
    const std::string url = cluster.url_of({other, third});
    std::vector<std::unique_ptr<Holder>> holders;
    for (int i = 0; i < 12; ++i)
      holders.push_back(std::make_unique<Holder>(url, fmt::format("k{}-{}", round, i), ttl));
    Witness witness{cluster.url_of({other})};
    std::this_thread::sleep_for(ttl / 2);
    cluster.freeze(leader);
    std::this_thread::sleep_for(ttl * 3 / 2);
    cluster.thaw(leader);
    std::this_thread::sleep_for(ttl * 3 / 2);
    int early = 0, late = 0;
    for (const auto& h : holders) {
      early += h->lost_early;
      late += h->late;
    }
    const Clock::duration longest = witness.end();
    CAPTURE(std::chrono::duration_cast<Duration>(longest).count());
    CHECK(early == 0);
    // On a busy machine the others may elect nobody for longer than a lease.
    CHECK((late == 0 || longest > ttl / 2));
  }
}

TEST_CASE("the member that is connected is stopped, another one, the leader is killed: held on") {
  constexpr Duration ttl = 6s;
  EtcdServer cluster{in_memory(3)};
  const std::size_t leader = cluster.leader(), follower = cluster.follower(),
                    third = 3 - leader - follower;
  const struct {
    std::size_t broken;
    std::vector<std::size_t> order;
    bool kill;
  } faults[] = {{follower, {follower, leader, third}, false},
                {third, {follower, leader, third}, false},
                {leader, {leader, follower, third}, true}};
  for (const auto& fault : faults) {
    CAPTURE(fault.broken, fault.kill);
    Holder holder{cluster.url_of(fault.order), "k", ttl};
    Witness witness{cluster.url_of({fault.broken == third ? follower : third})};
    if (fault.kill) cluster.kill(fault.broken);
    else cluster.freeze(fault.broken);
    std::this_thread::sleep_for(ttl * 3 / 2);
    CHECK_FALSE(holder.lost_early);
    const Clock::duration longest = witness.end();
    CHECK((!holder.late || longest > ttl / 2));
    if (fault.kill) cluster.start(fault.broken);
    else cluster.thaw(fault.broken);
    cluster.wait_ready();
    holder.end();
    (void)answered([&] { return holder.backend->release(holder.lease); });
  }
}

TEST_CASE("a waiter whose member is stopped is granted in time") {
  EtcdServer cluster{in_memory(3)};
  CHECK(once_within(6s, [&] {  // a third of its ttl, and a try
    const std::size_t follower = cluster.follower(), leader = cluster.leader(),
                      third = 3 - leader - follower;
    const auto holder = open_etcd(cluster.url_of({leader}), patient());
    const auto waiter = open_etcd(cluster.url_of({follower, third}), quick(1s));
    const Lease lease = take(*holder, request(key("k"), 600s));
    auto w = waiter->enqueue(request(key("k"), 6s)).value();
    CHECK(waits(*w, 300ms));  // it watches
    cluster.freeze(follower);
    release_or_fail(*holder, lease);
    const Deadline released = Clock::now();
    while (Clock::now() < released + 60s && !granted(w->poll(1s))) {}
    const auto took = Clock::now() - released;
    cluster.thaw(follower);
    cluster.wait_ready();
    (void)answered([&] { return w->cancel(); });
    return took;
  }));
}

TEST_CASE("without a quorum nothing is granted or renewed, and both say that they do not know") {
  EtcdServer cluster{in_memory(3)};
  const std::size_t leader = cluster.leader();
  const auto b = open_etcd(cluster.url_of({leader}), quick(1s));
  const Lease lease = take(*b, request(key("k"), 600s));
  for (std::size_t i = 0; i < 3; ++i)
    if (i != leader) cluster.freeze(i);
  const auto answer = b->renew(lease, 600s);
  REQUIRE_FALSE(answer);
  CHECK(retryable(answer.error().code));
  CHECK(ends_within(4s, [&] {
    const auto p = b->enqueue(request(key("other"))).value()->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(retryable(p.error().code));
  }));
  CHECK_FALSE(b->check(key("k"), lease.token));
  for (std::size_t i = 0; i < 3; ++i)
    if (i != leader) cluster.thaw(i);
  cluster.wait_ready();
  CHECK(kept(renewed(*b, lease, 600s)));
}
