// SPDX-License-Identifier: Apache-2.0
// Several servers that belong together.
#pragma once
#include <memory>
#include <vector>
#include "faults.hpp"
#include "support/redis_groups.hpp"
#include "support/secret_file.hpp"

namespace dlock::test {

// User app, whose password is in a file, and changes at servers of a group.
struct ChangingPassword {
  std::vector<RedisServer*> servers;
  SecretFile file{"first"};

  explicit ChangingPassword(std::vector<RedisServer*> at) : servers(std::move(at)) {
    change("first");
  }
  void change(const std::string& password) const {
    for (RedisServer* s : servers) set_password(*s, password), disconnect_all(*s);
  }
  std::unique_ptr<Backend> open(std::string url) const {
    Settings settings = patient();
    settings.password = "first";
    settings.password_file = file.path();
    return open_redis(url.insert(url.find("//") + 2, "app@"), settings);
  }
};

// Of a lock that is held, and waited for.
inline void change_password_while_held(const std::string& url, const ChangingPassword& password) {
  auto backend = password.open(url), other = password.open(url);
  const Lease held = granted_within(**backend->enqueue(request(key("k"), 600s)));
  auto waiter = *other->enqueue(request(key("k"), 600s));
  REQUIRE(waits(*waiter, 50ms));
  password.change("second");
  const auto refused = backend->renew(held, 600s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::denied);
  password.file.write("second");
  CHECK(kept(renewed(*backend, held, 600s)));
  password.file.write("third");
  password.change("third");
  CHECK(kept(renewed(*backend, held, 600s)));
  release_or_fail(*backend, held);
  granted_within(*waiter);
}

}  // namespace dlock::test
