// SPDX-License-Identifier: Apache-2.0
// Passwords that change while a lock is held, and a slow way to the masters.
#include "redlock_faults.hpp"
#include "support/secret_file.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("a password that masters refuse is read again from its file") {
  RedlockMasters m;
  const auto set_password = [&](const std::string& password) {
    for (auto& s : m.servers) {
      REQUIRE(s->command({"ACL", "SETUSER", "app", "on", "resetpass", ">" + password, "~*", "&*",
                          "+@all"})
                  .text == "OK");
      s->command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    }
  };
  set_password("first");
  const SecretFile file{"first"};
  Settings settings = patient();
  settings.password = "first";
  settings.password_file = file.path();
  auto backend = open_redlock(m.url_of("app@", "127.0.0.1", "?restart_grace=0"), settings);
  const Lease lease = granted_within(*backend, request(key("k")));
  set_password("second");
  const auto refused = backend->renew(lease, 10s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::denied);
  file.write("second");
  CHECK(becomes([&] {
    const auto answer = backend->renew(lease, 10s);
    return kept(answer);
  }));
}

// Each exchange is answered within --op-timeout, two of them are not.
TEST_CASE("a slow way: after a break the greeting and the request have op-timeout each") {
  RedlockMasters m{{.proxied = true}};
  auto backend = open_redlock(m.proxied_url(), quick(2s, 1s));
  CHECK(one_of_five([&] {
    const Lease lease = granted_within(*backend, request(key("k"), 300s));
    for (auto& p : m.proxies) {
      p->delay(Proxy::to_client, 1200ms);
      p->cut();
    }
    const bool released = backend->release(lease) == Released::yes;
    for (auto& p : m.proxies) p->delay(Proxy::to_client, 0s);
    if (!released) (void)answered([&] { return backend->release(lease); });
    return released;
  }));
}
