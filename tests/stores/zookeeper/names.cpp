// SPDX-License-Identifier: Apache-2.0
// Host names: a name service that hangs, and names that are unknown.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include "support/name_service.hpp"
#include "support/polling.hpp"
#include "support/zookeeper_client.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

Request ask() { return request(Key::parse("k").value(), 10s); }

// These names, each with this port.
std::string url(std::uint16_t port, std::initializer_list<const char*> names) {
  std::string hosts;
  for (const char* name : names)
    hosts += fmt::format("{}{}:{}", hosts.empty() ? "" : ",", name, port);
  return fmt::format("zookeeper://{}{}", hosts, fresh_chroot());
}
std::uint16_t port() { return shared_zookeeper().port(); }

}  // namespace

TEST_CASE("a name service that hangs: unavailable within the connect timeout, then it answers") {
  name_service::hang("one.test");
  const auto backend = open_zookeeper(url(port(), {"one.test"}), quick(60s, 200ms));
  const auto waiter = *backend->enqueue(ask());
  const auto began = Clock::now();
  const auto p = waiter->poll(0us);
  CHECK(Clock::now() - began < 30s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("one.test: no answer of the name service in time") !=
        std::string::npos);
  CHECK(backend->inspect(Key::parse("k").value()).error().code == Errc::unavailable);
  name_service::answer("one.test", {"127.0.0.1"});
  release_or_fail(*backend, granted_within(*waiter));
}

TEST_CASE("an unknown name is unavailable at once, and found once it is known") {
  name_service::answer("two.test", {});
  const auto backend = open_zookeeper(url(port(), {"two.test"}), patient());
  const auto waiter = *backend->enqueue(ask());
  const auto began = Clock::now();
  const auto p = waiter->poll(0us);
  CHECK(Clock::now() - began < 50s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("cannot find host two.test") != std::string::npos);
  name_service::answer("two.test", {"127.0.0.1"});
  release_or_fail(*backend, granted_within(*waiter));
}

TEST_CASE("one name of three that hangs or is unknown delays none of the others") {
  for (const bool hangs : {true, false}) {
    CAPTURE(hangs);
    name_service::answer("three.test", {});
    if (hangs) name_service::hang("three.test");
    name_service::answer("four.test", {"127.0.0.1"});
    const auto backend =
        open_zookeeper(url(port(), {"three.test", "four.test", "127.0.0.1"}), patient());
    const auto began = Clock::now();
    const Lease lease = acquire_or_fail(*backend, ask());
    CHECK(kept(backend->renew(lease, 10s)));
    CHECK(backend->doctor());
    release_or_fail(*backend, lease);
    CHECK(Clock::now() - began < 50s);
    name_service::answer("three.test", {});
  }
}
