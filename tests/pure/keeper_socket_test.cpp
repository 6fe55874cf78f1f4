// SPDX-License-Identifier: Apache-2.0
#include "run/keeper_socket.hpp"
#include <unistd.h>
#include <catch2/catch.hpp>

using namespace dlock;
using run::KeeperAddress;

TEST_CASE("KeeperAddress survives encoding") {
  const KeeperAddress here = KeeperAddress::of_this_process("name");
  CHECK(here.pid == ::getpid());
  CHECK(here.boot.size() == 16);
  const KeeperAddress read = KeeperAddress::parse(here.text());
  CHECK(read.name == "name");
  CHECK(read.boot == here.boot);
  CHECK(read.network == here.network);
  CHECK(read.processes == here.processes);
  CHECK(read.pid == here.pid);
}

TEST_CASE("a KeeperAddress with missing or malformed parts is unknown") {
  for (const char* text : {"name", "name.", "name..", "name..x.y.z", "name..1x.2x.-",
                           "name..99999999999999999999999"}) {
    INFO(text);
    const KeeperAddress read = KeeperAddress::parse(text);
    CHECK(read.name == "name");
    CHECK(read.boot.empty());
    CHECK(read.network == 0);
    CHECK(read.processes == 0);
    CHECK(read.pid == 0);
  }
}

TEST_CASE("a keeper without a listener counts as dead only in the same boot and namespaces") {
  const Owner owner = Owner::random();
  const KeeperAddress here = KeeperAddress::of_this_process(owner.hex());  // no listener there
  CHECK(run::query_keeper(here, "check", owner) == run::KeeperAnswer::not_held);
  KeeperAddress other_network = here;
  other_network.network = 1;
  CHECK_FALSE(run::query_keeper(other_network, "check", owner));  // this process lives
  KeeperAddress other_boot = here;
  other_boot.boot = "0123456789abcdef";
  CHECK_FALSE(run::query_keeper(other_boot, "check", owner));
  const auto unknown = run::query_keeper(KeeperAddress{.name = owner.hex()}, "check", owner);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == Errc::unavailable);
}
