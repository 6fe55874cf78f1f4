// SPDX-License-Identifier: Apache-2.0
#include <thread>
#include "faults.hpp"
#include "support/certificates.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

struct Fixture {
  TestDirectory dir;
  Authority ours{dir.path(), "ours"}, theirs{dir.path(), "theirs"};

  std::unique_ptr<RedisServer> server(const Authority::Files& files,
                                      std::vector<std::string> more = {
                                          "tls-auth-clients no"}) const {
    const std::uint16_t port = free_port();
    std::vector<std::string> config{fmt::format("tls-port {}", port), "tls-cert-file " + files.cert,
                                    "tls-key-file " + files.key, "tls-ca-cert-file " + ours.file()};
    config.insert(config.end(), more.begin(), more.end());
    tls_port = port;
    return std::make_unique<RedisServer>(
        RedisServer::Setup{.config = std::move(config), .plain_port = false});
  }
  mutable std::uint16_t tls_port = 0;

  Result<Progress> poll(const std::string& host, const std::string& items,
                        const Settings& settings = patient()) const {
    auto backend = open_redis(
        fmt::format("rediss://{}:{}?restart_grace=0{}", host, tls_port, items), settings);
    return (*backend->enqueue(request(key("tls"))))->poll(0s);
  }
  void refused(const std::string& host, const std::string& items, const char* why,
               const Settings& settings = patient()) const {
    const auto p = poll(host, items, settings);
    REQUIRE_FALSE(p);
    INFO(p.error().message);
    CHECK(p.error().code == Errc::denied);
    CHECK(p.error().message.find(why) != std::string::npos);
  }
  std::string ca() const { return "&tls_ca=" + ours.file(); }
};

bool granted(const Result<Progress>& p) { return p && std::holds_alternative<Granted>(*p); }

}  // namespace

TEST_CASE(
    "TLS: a name and an address of the certificate are accepted, and every operation works over "
    "it") {
  Fixture f;
  const auto server = f.server(f.ours.issue("good", "DNS:localhost,IP:127.0.0.1"));
  CHECK(granted(f.poll("127.0.0.1", f.ca() + "&prefix=a:")));
  CHECK(granted(f.poll("localhost", f.ca() + "&prefix=b:")));
  auto backend =
      open_redis(fmt::format("rediss://localhost:{}?restart_grace=0{}", f.tls_port, f.ca()));
  auto other = open_redis(server->unix_url() + "?restart_grace=0");
  const Key k = key("both");
  const Lease held = acquire_or_fail(*other, request(k));
  auto waiter = *backend->enqueue(request(k));
  REQUIRE(std::holds_alternative<Waiting>(*waiter->poll(0s)));
  CHECK(other->release(held) == Released::yes);
  const Lease next = granted_within(*waiter);
  CHECK(kept(backend->renew(next, 10s)));
  Request long_meta = request(key("long"));
  long_meta.identity.reason = std::string(100'000, 'x');  // more than one TLS record each way
  acquire_or_fail(*backend, long_meta);
  const auto view = backend->inspect(key("long"));
  REQUIRE((view && *view));
  CHECK((*view)->holders[0].who.reason.size() == 100'000);
  CHECK(backend->release(next) == Released::yes);
}

TEST_CASE("TLS: an authority that this machine does not trust, unless it need not be verified") {
  Fixture f;
  const auto server = f.server(f.ours.issue("good", "DNS:localhost"));
  f.refused("localhost", "", "certificate refused");
  Settings blind = patient();
  blind.tls_insecure = true;
  CHECK(granted(f.poll("127.0.0.1", "", blind)));
}

TEST_CASE("TLS: older than 1.2 is refused") {
  Fixture f;
  const auto server =
      f.server(f.ours.issue("good", "DNS:localhost"),
               {"tls-auth-clients no", "tls-protocols \"TLSv1.1\"", "tls-ciphers ALL:@SECLEVEL=0"});
  f.refused("localhost", f.ca(), "TLS");
}

TEST_CASE(
    "TLS: a URL without TLS at a port with it, and the other way round: the message says so") {
  Fixture f;
  const auto server = f.server(f.ours.issue("good", "DNS:localhost"));
  auto clear = open_redis(fmt::format("redis://localhost:{}?restart_grace=0", f.tls_port), quick());
  std::string said;
  const auto says = [&](const Result<Progress>& p, const char* what) {
    said = p ? "granted" : p.error().message;
    return said.find(what) != std::string::npos;
  };
  CHECK(one_of_five([&] {  // a busy machine may not come so far in time
    return says((*clear->enqueue(request(key("tls"))))->poll(0s),
                "does it speak TLS on this port?");
  }));
  INFO(said);
  RedisServer plain;
  f.tls_port = plain.port();
  CHECK(
      one_of_five([&] { return says(f.poll("127.0.0.1", f.ca(), quick()), "TLS on this port"); }));
}

TEST_CASE("TLS: a key that is not that of our certificate") {
  Fixture f;
  f.tls_port = 1;
  const auto mine = f.ours.issue("client", "DNS:client"),
             foreign = f.theirs.issue("stranger", "DNS:client");
  CHECK_THROWS_WITH(
      f.poll("localhost", fmt::format("{}&tls_cert={}&tls_key={}", f.ca(), mine.cert, foreign.key)),
      Catch::Contains("--tls-key") && Catch::Contains(foreign.key));
}

TEST_CASE("TLS: a handshake that never finishes ends at connect_timeout") {
  Fixture f;
  const auto server = f.server(f.ours.issue("good", "DNS:localhost"));
  Proxy proxy{f.tls_port};
  proxy.stall(Proxy::to_client, true);
  auto backend =
      open_redis(fmt::format("rediss://localhost:{}?restart_grace=0{}", proxy.port(), f.ca()),
                 quick(500ms, 400ms));
  CHECK(ends_within(800ms, [&] {
    const auto p = (*backend->enqueue(request(key("tls"))))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::unavailable);
  }));
  proxy.stall(Proxy::to_client, false);
  CHECK(granted(answer_of(**backend->enqueue(request(key("tls"))))));
}
