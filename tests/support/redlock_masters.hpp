// SPDX-License-Identifier: Apache-2.0
// Five masters that know nothing of each other.
#pragma once
#include <memory>
#include <string>
#include <vector>
#include "redlock/redlock_backend.hpp"
#include "support/proxy.hpp"
#include "support/redis_client.hpp"

namespace dlock::test {

std::unique_ptr<Backend> open_redlock(const std::string& url,
                                      const Settings& settings = {});  // throws with the message of the error

class RedlockMasters {
 public:
  struct Setup {
    std::size_t count = 5;
    std::vector<std::string> config;
    std::vector<std::string> (*environment)(std::size_t master) = nullptr;
    bool proxied = false;
  };
  RedlockMasters() : RedlockMasters(Setup{}) {}
  explicit RedlockMasters(const Setup&);

  std::string url(const std::string& items = "?restart_grace=0") const;          // of the servers themselves
  std::string proxied_url(const std::string& items = "?restart_grace=0") const;  // through the proxies
  std::size_t size() const noexcept { return servers.size(); }
  // The value of a string at that master; empty: there is none.
  std::string value(std::size_t master, const std::string& key);

  std::vector<std::unique_ptr<RedisServer>> servers;
  std::vector<std::unique_ptr<Proxy>> proxies;
};

}  // namespace dlock::test
