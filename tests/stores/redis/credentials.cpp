// SPDX-License-Identifier: Apache-2.0
// Certificates that change while a lock is held, and a slow way to the server.
#include <filesystem>
#include "faults.hpp"
#include "support/certificates.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("TLS files are read again when a certificate is refused") {
  TestDirectory dir;
  const Authority ours{dir.path(), "ours"}, theirs{dir.path(), "theirs"};
  const auto before = ours.issue("before", "DNS:localhost"),
             after = theirs.issue("after", "DNS:localhost");
  const std::uint16_t port = free_port();
  RedisServer server{{.config = {fmt::format("tls-port {}", port), "tls-cert-file " + before.cert,
                                 "tls-key-file " + before.key, "tls-ca-cert-file " + ours.file(),
                                 "tls-auth-clients no"},
                      .plain_port = false}};
  const std::string ca = dir.path() + "/ca";
  std::filesystem::copy_file(ours.file(), ca);
  auto backend = open_redis(
      fmt::format("rediss://localhost:{}?restart_grace=0&tls_ca={}", port, ca), patient());
  const Lease lease = acquire_or_fail(*backend, request(key("k")));
  REQUIRE(server.command({"CONFIG", "SET", "tls-cert-file", after.cert, "tls-key-file", after.key})
              .text == "OK");
  disconnect_all(server);
  const auto refused = backend->renew(lease, 10s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::denied);
  std::filesystem::copy_file(theirs.file(), ca, std::filesystem::copy_options::overwrite_existing);
  CHECK(kept(backend->renew(lease, 10s)));
}

// Each exchange is answered within --op-timeout, two of them are not.
TEST_CASE("a slow way: a renewal that needs several exchanges has op-timeout for each") {
  Proxied p;
  auto backend = open_redis(p.url(), quick(2s, 2s));
  const Lease lease = acquire_or_fail(*backend, request(key("k"), 600s));
  p.proxy.delay(Proxy::to_client, 1200ms);
  for (const bool cut : {false, true})  // EVALSHA, EVAL; the greeting before these
    CHECK(one_of_five([&] {
      p.server.command({"SCRIPT", "FLUSH"});
      if (cut) p.proxy.cut();
      return kept(backend->renew(lease, 600s));
    }));
}
