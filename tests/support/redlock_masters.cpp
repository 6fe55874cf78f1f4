// SPDX-License-Identifier: Apache-2.0
#include "support/redlock_masters.hpp"
#include <fmt/format.h>
#include <stdexcept>

namespace dlock::test {

std::unique_ptr<Backend> open_redlock(const std::string& text, const Settings& settings) {
  const auto url = Url::parse(text);
  if (!url) throw std::runtime_error(url.error().message);
  auto backend = redlock::factory.open(*url, redlock::recipes[0], settings);
  if (!backend) throw std::runtime_error(backend.error().message);
  return std::move(*backend);
}

RedlockMasters::RedlockMasters(const Setup& setup) {
  for (std::size_t i = 0; i < setup.count; ++i) {
    RedisServer::Setup one{.config = setup.config, .uptime = setup.uptime};
    if (setup.tls) {
      ports_.push_back(free_port());
      one.config.push_back(fmt::format("tls-port {}", ports_[i]));
      for (auto& line : setup.tls(i)) one.config.push_back(std::move(line));
      one.plain_port = false;
    }
    servers.push_back(std::make_unique<RedisServer>(std::move(one)));
    if (!setup.tls) ports_.push_back(servers.back()->port());
    if (setup.proxied) proxies.push_back(std::make_unique<Proxy>(servers.back()->port()));
  }
}

std::string RedlockMasters::name(std::size_t master, const std::string& host) const {
  return fmt::format("{}:{}", host, ports_[master]);
}

std::string RedlockMasters::url(const std::string& items) const {
  return url_of("", "127.0.0.1", items);
}

std::string RedlockMasters::url_of(const std::string& user, const std::string& host,
                                   const std::string& items) const {
  std::string hosts;
  for (std::size_t i = 0; i < size(); ++i) hosts += (hosts.empty() ? "" : ",") + name(i, host);
  return fmt::format("redlock://{}{}{}", user, hosts, items);
}

std::string RedlockMasters::proxied_url(const std::string& items) const {
  std::string hosts;
  for (const auto& p : proxies)
    hosts += fmt::format("{}127.0.0.1:{}", hosts.empty() ? "" : ",", p->port());
  return fmt::format("redlock://{}{}", hosts, items);
}

std::string RedlockMasters::value(std::size_t master, const std::string& key) {
  return servers[master]->command({"GET", key}).text;
}

}  // namespace dlock::test
