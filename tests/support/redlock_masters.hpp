// SPDX-License-Identifier: Apache-2.0
// Five independent masters.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "redlock/factory.hpp"
#include "support/proxy.hpp"
#include "support/redis_client.hpp"

namespace dlock::test {

std::unique_ptr<Backend> open_redlock(const std::string& url,
                                      // throws with the message of the error
                                      const Settings& settings = {});

class RedlockMasters {
 public:
  struct Setup {
    std::size_t count = 5;
    std::vector<std::string> config;
    bool proxied = false;
    std::chrono::seconds uptime{0};  // of each, as RedisServer::Setup has it
    std::function<std::vector<std::string>(std::size_t master)>
        tls{};  // its lines of redis.conf; then it has no port without TLS
  };
  RedlockMasters() : RedlockMasters(Setup{}) {}
  explicit RedlockMasters(const Setup&);

  // of the servers themselves
  std::string url(const std::string& items = "?restart_grace=0") const;
  std::string url_of(const std::string& user, const std::string& host,
                     // "me:password@", "localhost"
                     const std::string& items) const;
  // through the proxies
  std::string proxied_url(const std::string& items = "?restart_grace=0") const;
  std::size_t size() const noexcept { return servers.size(); }
  // as messages show it
  std::string name(std::size_t master, const std::string& host = "127.0.0.1") const;
  // The value of a string at that master; empty: none.
  std::string value(std::size_t master, const std::string& key);

  std::vector<std::unique_ptr<RedisServer>> servers;
  std::vector<std::unique_ptr<Proxy>> proxies;

 private:
  std::vector<std::uint16_t> ports_;
};

}  // namespace dlock::test
