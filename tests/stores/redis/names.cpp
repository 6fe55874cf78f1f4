// SPDX-License-Identifier: Apache-2.0
// Host names: a name service that hangs, addresses that are silent or have changed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include "common/lookup.hpp"
#include "faults.hpp"
#include "groups.hpp"

#include "support/name_service.hpp"
#include "support/redlock_masters.hpp"

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

// 127.0.0.2:port, which answers no SYN: its queue of connections is full.
class Silent {
 public:
  explicit Silent(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    ::inet_pton(AF_INET, "127.0.0.2", &at.sin_addr);
    const auto* const address = reinterpret_cast<const sockaddr*>(&at);
    const int yes = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    REQUIRE(::bind(listener_.get(), address, sizeof at) == 0);
    REQUIRE(::listen(listener_.get(), 0) == 0);
    for (Fd& fd : queue_) {
      fd = Fd{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
      (void)::connect(fd.get(), address, sizeof at);
    }
    pollfd last{queue_[3].get(), POLLOUT, 0};
    REQUIRE(::poll(&last, 1, 200) == 0);
  }

 private:
  Fd listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Fd queue_[4];
};

}  // namespace

TEST_CASE("a literal address is known at once") {
  Lookup v4("127.0.0.1", 7, later(Clock::now(), 10s)), v6("::1", 7, later(Clock::now(), 10s));
  CHECK(v4.fd() == -1);
  CHECK(texts(v4.answer().value()) == Texts{"127.0.0.1"});
  CHECK(texts(v6.answer().value()) == Texts{"::1"});
}

TEST_CASE("a name service that hangs: a bound, one thread for all, the former addresses") {
  name_service::hang("one.test");
  Lookup first("one.test", 7, later(Clock::now(), 50ms)),
      second("one.test", 7, later(Clock::now(), 10s));
  CHECK_FALSE(second.answer());
  const auto silent = look_up("one.test", 7, later(Clock::now(), 10ms));
  REQUIRE_FALSE(silent);
  CHECK(silent.error().code == Errc::unavailable);
  CHECK(silent.error().message.find("in time") != std::string::npos);
  name_service::answer("one.test", {"127.0.0.1", "127.0.0.2"});
  pollfd over{second.fd(), POLLIN, 0};
  REQUIRE(::poll(&over, 1, 10'000) == 1);
  CHECK(texts(second.answer().value()) == Texts{"127.0.0.1", "127.0.0.2"});
  CHECK(name_service::asked("one.test") == 1);
  name_service::hang("one.test");
  CHECK(texts(look_up("one.test", 7, later(Clock::now(), 30ms))) ==
        Texts{"127.0.0.1", "127.0.0.2"});
  name_service::answer("one.test", {"127.0.0.3"});
  eventually("the new address", 10s, [] {
    return texts(look_up("one.test", 7, later(Clock::now(), 10s))) == Texts{"127.0.0.3"};
  });
  name_service::answer("one.test", {});  // an answer, if a bad one
  CHECK_FALSE(look_up("one.test", 7, later(Clock::now(), 10s)));
}

TEST_CASE("a silent address does not delay the next one beyond its time") {
  RedisServer server;
  const Silent silent(server.port());
  name_service::answer("two.test", {"127.0.0.2", "127.0.0.1"});
  auto backend = open_redis(fmt::format("redis://two.test:{}?restart_grace=0", server.port()),
                            quick(20s, 20s));
  const auto began = Clock::now();
  acquire_or_fail(*backend, request(key("k")));
  CHECK(Clock::now() - began < 10s);  // half of the time, if each had its share
}

TEST_CASE("a holder reconnects while the name service hangs") {
  Proxied p;
  name_service::answer("three.test", {"127.0.0.1"});
  auto backend = open_redis(fmt::format("redis://three.test:{}?restart_grace=0", p.proxy.port()),
                            quick(5s, 5s));
  const Lease lease = acquire_or_fail(*backend, request(key("k"), 60s));
  name_service::hang("three.test");
  p.proxy.cut();
  CHECK(kept(backend->renew(lease, 60s)));
  name_service::answer("three.test", {"127.0.0.1"});
}

TEST_CASE("a new address is found at the next connection") {
  Proxied p;
  name_service::answer("four.test", {"127.0.0.1"});
  auto backend = open_redis(fmt::format("redis://four.test:{}?restart_grace=0", p.proxy.port()),
                            quick(1s, 1s));
  const Lease lease = acquire_or_fail(*backend, request(key("k"), 60s));
  name_service::answer("four.test", {"127.0.0.9"});
  p.proxy.cut();
  CHECK_FALSE(backend->renew(lease, 60s));
  name_service::answer("four.test", {"127.0.0.1"});
  CHECK(kept(backend->renew(lease, 60s)));
}

TEST_CASE("a name that hangs delays no server that answers: Redlock") {
  RedisServer a, b;
  name_service::hang("five.test");
  auto backend =
      open_redlock(fmt::format("redlock://127.0.0.1:{},127.0.0.1:{},five.test:{}?restart_grace=0",
                               a.port(), b.port(), a.port()),
                   quick(20s, 20s));
  auto waiter = *backend->enqueue(request(key("k"), 60s));
  const auto began = Clock::now();
  const Lease lease = granted_within(*waiter, 10s);
  CHECK(kept(backend->renew(lease, 60s)));
  CHECK(Clock::now() - began < 10s);
  name_service::answer("five.test", {});
}

TEST_CASE("a name that hangs delays no server that answers: sentinels") {
  SentinelGroup g;
  name_service::hang("six.test");
  auto backend = open_redis(
      fmt::format("redis+sentinel://six.test:{},127.0.0.1:{},127.0.0.1:{}/m?restart_grace=0",
                  g.sentinels[0]->port(), g.sentinels[1]->port(), g.sentinels[2]->port()),
      quick(20s, 20s));
  const auto began = Clock::now();
  const Lease lease = acquire_or_fail(*backend, request(key("k"), 60s));
  CHECK(kept(backend->renew(lease, 60s)));
  CHECK(Clock::now() - began < 10s);
  name_service::answer("six.test", {});
}
