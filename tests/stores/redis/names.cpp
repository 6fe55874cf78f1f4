// SPDX-License-Identifier: Apache-2.0
// Host names: a name service that hangs. What moves or is silent: environment/host_names.py.
#include <poll.h>
#include "common/lookup.hpp"
#include "common/net/transport.hpp"
#include "faults.hpp"
#include "groups.hpp"
#include "support/name_service.hpp"
#include "support/redlock_masters.hpp"
#include "support/stranger.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

std::vector<std::string> texts(const Result<Addresses>& found) {
  REQUIRE(found);
  std::vector<std::string> all;
  for (const Address& a : *found) all.push_back(a.text());
  return all;
}
using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a literal address is known at once") {
  Lookup v4("127.0.0.1", 7, later(Clock::now(), 60s)), v6("::1", 7, later(Clock::now(), 60s));
  CHECK(v4.fd() == -1);
  CHECK(texts(v4.answer().value()) == Texts{"127.0.0.1"});
  CHECK(texts(v6.answer().value()) == Texts{"::1"});
}

TEST_CASE("a name service that hangs: a bound, one thread for all, the former addresses") {
  name_service::hang("one.test");
  Lookup first("one.test", 7, later(Clock::now(), 50ms)),
      second("one.test", 7, later(Clock::now(), 60s));
  CHECK_FALSE(second.answer());
  const auto silent = look_up("one.test", 7, later(Clock::now(), 10ms));
  REQUIRE_FALSE(silent);
  CHECK(silent.error().code == Errc::unavailable);
  CHECK(silent.error().message.find("in time") != std::string::npos);
  name_service::answer("one.test", {"127.0.0.1", "127.0.0.2"});
  pollfd over{second.fd(), POLLIN, 0};
  REQUIRE(::poll(&over, 1, 60'000) == 1);
  CHECK(texts(second.answer().value()) == Texts{"127.0.0.1", "127.0.0.2"});
  CHECK(name_service::asked("one.test") == 1);
  name_service::hang("one.test");
  CHECK(texts(look_up("one.test", 7, later(Clock::now(), 30ms))) ==
        Texts{"127.0.0.1", "127.0.0.2"});
  name_service::answer("one.test", {"127.0.0.3"});
  eventually("the new address", [] {
    return texts(look_up("one.test", 7, later(Clock::now(), 60s))) == Texts{"127.0.0.3"};
  });
  name_service::answer("one.test", {});  // an answer, if a bad one
  CHECK_FALSE(look_up("one.test", 7, later(Clock::now(), 60s)));
}

// It is asked late, as by a dlock that was stopped: what has arrived meanwhile counts.
TEST_CASE("an address is left as silent only if nothing has come from it") {
  const Listener first, second{first.port, 2};
  name_service::answer("seven.test", {"127.0.0.1", "127.0.0.2"});
  for (const bool speaks : {true, false}) {
    CAPTURE(speaks);
    const Deadline until = later(Clock::now(), 60s);
    Transport line({"seven.test", first.port}, nullptr, 10s, until);
    while (!line.step_open(Clock::now()).value())
      (void)wait_for(line.poll_fd(), line.poll_events(), {line.poll_until()});
    const Fd server = first.accept();
    pollfd said{line.poll_fd(), POLLIN, 0};
    if (speaks) say(server, "+");
    if (speaks) REQUIRE(::poll(&said, 1, 60'000) == 1);
    CHECK(line.leave_silent(until) != speaks);
  }
  name_service::answer("seven.test", {});
}

TEST_CASE("a name that hangs delays no server that answers: Redlock") {
  RedisServer a, b;
  name_service::hang("five.test");
  auto backend =
      open_redlock(fmt::format("redlock://127.0.0.1:{},127.0.0.1:{},five.test:{}?restart_grace=0",
                               a.port(), b.port(), a.port()),
                   patient());
  auto waiter = *backend->enqueue(request(key("k"), 600s));
  const auto began = Clock::now();
  const Lease lease = granted_within(*waiter);
  CHECK(kept(renewed(*backend, lease, 600s)));
  CHECK(Clock::now() - began < 50s);
  name_service::answer("five.test", {});
}

TEST_CASE("a name that hangs delays no server that answers: sentinels") {
  SentinelGroup g;
  name_service::hang("six.test");
  auto backend = open_redis(
      fmt::format("redis+sentinel://six.test:{},127.0.0.1:{},127.0.0.1:{}/m?restart_grace=0",
                  g.sentinels[0]->port(), g.sentinels[1]->port(), g.sentinels[2]->port()),
      patient());
  const auto began = Clock::now();
  const Lease lease = acquire_or_fail(*backend, request(key("k"), 600s));
  CHECK(kept(renewed(*backend, lease, 600s)));
  CHECK(Clock::now() - began < 50s);
  name_service::answer("six.test", {});
}
