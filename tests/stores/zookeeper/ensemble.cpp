// SPDX-License-Identifier: Apache-2.0
// Three servers, one of which fails.
#include <unistd.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include "support/dlock_run.hpp"
#include "support/polling.hpp"
#include "support/proxy.hpp"
#include "support/zookeeper_client.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

// No election of a busy machine takes so long.
constexpr Duration long_ttl = 100s;

Request ask(Duration ttl) { return request(Key::parse("k").value(), ttl); }
// Through answers that are late.
Lease take(Backend& b, const Request& r) { return granted_within(**b.enqueue(r), 60s); }

// Renews as a keeper does, until that has been answered so often; false: the lock was lost.
bool keeps(Backend& b, Lease& l, int times) {
  while (times > 0 && Clock::now() < l.deadline) {
    const auto r = b.renew(l, long_ttl);
    if (r && !std::holds_alternative<Kept>(*r)) return false;
    if (r) l = std::get<Kept>(*r).lease, --times;
    ::usleep(200000);
  }
  return times == 0;
}

// Nothing is granted and nothing is renewed.
void without_quorum(ZookeeperEnsemble& ensemble) {
  Settings settings;
  settings.op_timeout = settings.connect_timeout = 500ms;
  const auto backend = open_zookeeper(ensemble.url() + "/q", settings),
             other = open_zookeeper(ensemble.url() + "/q", settings);
  constexpr Duration ttl = 6s;
  const Lease l = take(*backend, ask(ttl));
  const std::size_t leader = ensemble.leader(), follower = ensemble.follower();
  ensemble[leader].kill();
  ensemble[follower].kill();
  const Deadline end = std::max(l.deadline, Clock::now() + 1s);
  for (; Clock::now() < end; ::usleep(100000)) {
    const auto r = backend->renew(l, ttl);
    if (r) REQUIRE(std::holds_alternative<Lost>(*r));
    const auto p = (*other->enqueue(ask(ttl)))->poll(0s);
    REQUIRE_FALSE(p.has_value());
    CHECK(retryable(p.error().code));
  }
}

}  // namespace

// The job is on a follower: without the leader there is no quorum for a syncLimit, longer than a
// ttl may be.
TEST_CASE(
    "a job outlives the stop of the follower it is connected to, with the servers' own defaults") {
  ZookeeperEnsemble ensemble{{.tick = 2s}};
  // The servers of a busy machine may be too slow for its session, or elect another leader.
  CHECK(one_of_five([&] {
    const std::size_t leader = ensemble.leader(), first = ensemble.follower(),
                      second = ensemble.follower(first);
    const std::string url = "zookeeper://" + ensemble[first].host() + "," + ensemble[second].host();
    Run run(url, {"-q"}, {"sleep", "1000"});
    run.event("acquired");  // before that, a server that stops may end the attempt
    std::size_t its = 3;
    REQUIRE(becomes([&] {
      for (const std::size_t i : {first, second})
        if (ensemble[i].word("cons").find("to=30000") != std::string::npos) its = i;
      return its < 3;
    }));
    ensemble[its].freeze();
    // One renewal may have been answered before; the second was not.
    const bool renews = run.comes("renewed") && run.comes("renewed"),
               leads = ensemble[leader].field("Mode") == "leader";
    run.signal(SIGTERM);
    const std::string end = run.end();
    ensemble[its].thaw();
    return renews && leads && end == "signal 15 (TERM)";
  }));
}

TEST_CASE("the doctor names the options with which a job outlives a silent leader") {
  ZookeeperEnsemble ensemble{{.tick = 2s}};  // its syncLimit is 10
  const auto found = answered([&] { return open_zookeeper(ensemble.url())->doctor(); });
  const auto one = std::find_if(found.begin(), found.end(),
                                [](const Finding& f) { return f.what == "silent leader"; });
  REQUIRE(one != found.end());
  CHECK(one->seen ==
        "replaced after about 23s; jobs outlive that with ?tick=2s --ttl 56s --kill-after 2s");
}

TEST_CASE(
    "the leader is killed, a follower freezes: the holder keeps its lock, tokens rise; without a "
    "quorum nothing is granted") {
  ZookeeperEnsemble ensemble;
  Settings settings;
  settings.op_timeout = 500ms;
  const auto backend = open_zookeeper(ensemble.url() + "/e", settings),
             other = open_zookeeper(ensemble.url() + "/e", settings);
  Lease l = take(*backend, ask(long_ttl));
  const auto w = other->enqueue(ask(long_ttl)).value();
  CHECK(becomes([&] {
    const auto p = w->poll(20ms);
    return p && std::holds_alternative<Waiting>(*p);
  }));

  const std::size_t leader = ensemble.leader();
  ensemble[leader].kill();
  CHECK(keeps(*backend, l, 3));
  ensemble[leader].start();

  const std::size_t frozen = ensemble.follower();
  ensemble[frozen].freeze();
  CHECK(keeps(*backend, l, 3));
  ensemble[frozen].thaw();
  ensemble.leader();

  const auto released = [](Backend& b, const Lease& lease) {
    return becomes([&] { return b.release(lease).has_value(); });
  };
  CHECK(released(*backend, l));
  const Lease next = granted_within(*w, 60s);
  CHECK(next.token > l.token);
  CHECK(released(*other, next));
  without_quorum(ensemble);
}

// A new leader counts a session from its own start, by the timeout with which it was created.
TEST_CASE("a detached lease that was to last longer: no holder counts on it behind a new leader") {
  ZookeeperEnsemble ensemble;
  const std::size_t leader = ensemble.leader(), follower = ensemble.follower();
  Proxy way{ensemble[follower].port()};
  Settings settings;
  settings.op_timeout = 2s;
  settings.connect_timeout = 10s;
  Request r = request(Key::parse("k").value(), 20s);
  r.attached = false;
  const std::string url = "zookeeper://127.0.0.1:" + std::to_string(way.port()) + "/longer";
  const Lease taken = take(*open_zookeeper(url, settings), r);
  Lease handle{r.key, taken.owner};
  handle.ticket = taken.ticket;
  const auto holder = open_zookeeper(url, settings),
             other = open_zookeeper(ensemble.url() + "/longer", settings);

  Duration ttl = 30s;
  Result<Renewal> answer = fail(Errc::internal, "");
  CHECK(becomes([&] {
    answer = holder->renew(handle, ttl);
    if (!answer && answer.error().code == Errc::usage) ttl = 20s;
    return answer.has_value();
  }));
  REQUIRE(answer);
  REQUIRE(std::holds_alternative<Kept>(*answer));
  const Deadline counted = std::get<Kept>(*answer).lease.deadline;
  way.refuse(true);
  way.cut();
  ensemble[leader].kill();
  REQUIRE(becomes(
      [&] {
        const auto valid = other->check(r.key, taken.token);
        return valid && *valid == Validity::stale;
      },
      120s));
  CHECK(Clock::now() >= counted);
}
