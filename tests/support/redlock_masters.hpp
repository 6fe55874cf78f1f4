// SPDX-License-Identifier: Apache-2.0
// Five masters that know nothing of each other.
#pragma once
#include <functional>
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
    std::function<std::vector<std::string>(std::size_t master)>
        tls{};  // its lines of redis.conf; then it has no port without TLS
  };
  RedlockMasters() : RedlockMasters(Setup{}) {}
  explicit RedlockMasters(const Setup&);

  std::string url(const std::string& items = "?restart_grace=0") const;  // of the servers themselves
  std::string url_of(const std::string& user, const std::string& host,
                     const std::string& items) const;                            // "me:password@", "localhost"
  std::string proxied_url(const std::string& items = "?restart_grace=0") const;  // through the proxies
  std::size_t size() const noexcept { return servers.size(); }
  std::string name(std::size_t master, const std::string& host = "127.0.0.1") const;  // as people are told it
  // The value of a string at that master; empty: there is none.
  std::string value(std::size_t master, const std::string& key);

  std::vector<std::unique_ptr<RedisServer>> servers;
  std::vector<std::unique_ptr<Proxy>> proxies;

 private:
  std::vector<std::uint16_t> ports_;
};

}  // namespace dlock::test
