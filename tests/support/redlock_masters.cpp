// SPDX-License-Identifier: Apache-2.0
#include "support/redlock_masters.hpp"
#include <fmt/format.h>
#include <stdexcept>

namespace dlock::test {

std::unique_ptr<Backend> open_redlock(const std::string& text, const Settings& settings) {
  const auto url = Url::parse(text);
  if (!url) throw std::runtime_error(url.error().message);
  auto backend = redlock::open(*url, redlock::recipes[0], settings);
  if (!backend) throw std::runtime_error(backend.error().message);
  return std::move(*backend);
}

RedlockMasters::RedlockMasters(const Setup& setup) {
  for (std::size_t i = 0; i < setup.count; ++i) {
    RedisServer::Setup one{.config = setup.config};
    if (setup.environment) one.environment = setup.environment(i);
    servers.push_back(std::make_unique<RedisServer>(std::move(one)));
    if (setup.proxied) proxies.push_back(std::make_unique<Proxy>(servers.back()->port()));
  }
}

std::string RedlockMasters::url(const std::string& items) const {
  std::string hosts;
  for (const auto& s : servers) hosts += fmt::format("{}127.0.0.1:{}", hosts.empty() ? "" : ",", s->port());
  return fmt::format("redlock://{}{}", hosts, items);
}

std::string RedlockMasters::proxied_url(const std::string& items) const {
  std::string hosts;
  for (const auto& p : proxies) hosts += fmt::format("{}127.0.0.1:{}", hosts.empty() ? "" : ",", p->port());
  return fmt::format("redlock://{}{}", hosts, items);
}

std::string RedlockMasters::value(std::size_t master, const std::string& key) {
  return servers[master]->command({"GET", key}).text;
}

}  // namespace dlock::test
