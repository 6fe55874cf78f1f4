// SPDX-License-Identifier: Apache-2.0
#include "support/redis_client.hpp"
#include <unistd.h>
#include <algorithm>
#include <stdexcept>

namespace dlock::test {

std::unique_ptr<Backend> open_redis(const std::string& url, const Settings& settings, std::string_view recipe) {
  const auto parsed = Url::parse(url);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  const auto recipes = redis::factory.recipes;
  const auto traits = std::find_if(recipes.begin(), recipes.end(), [&](const Traits& t) { return t.recipe == recipe; });
  if (traits == recipes.end()) throw std::runtime_error("no such recipe");
  auto backend = redis::factory.open(*parsed, *traits, settings);
  if (!backend) throw std::runtime_error(backend.error().message);
  return std::move(*backend);
}

Request request(const Key& key, Duration ttl) {
  Request r{.key = key, .owner = Owner::random()};
  r.ttl = ttl;
  r.identity = Identity::mine("test");
  return r;
}

Lease acquire_or_fail(Backend& backend, const Request& r) {
  const auto waiter = backend.enqueue(r);
  if (!waiter) throw std::runtime_error(waiter.error().message);
  const auto p = (*waiter)->poll(Duration{0});
  if (!p) throw std::runtime_error(p.error().message);
  if (!std::holds_alternative<Granted>(*p)) throw std::runtime_error("not granted");
  return std::get<Granted>(*p).lease;
}

void release_or_fail(Backend& backend, const Lease& lease) {
  const auto r = backend.release(lease);
  if (!r) throw std::runtime_error(r.error().message);
  if (*r != Released::yes) throw std::runtime_error("was not held");
}

std::string info_field(RedisServer& server, std::string_view section, std::string_view field) {
  const std::string info = server.info(section);
  const std::size_t at = info.find("\n" + std::string{field} + ":");
  if (at == info.npos) return "";
  const std::size_t from = at + field.size() + 2;
  return info.substr(from, info.find_first_of("\r\n", from) - from);
}

bool blocked_clients(RedisServer& server, int wanted) {
  for (const Deadline until = Clock::now() + std::chrono::seconds{5}; Clock::now() < until; ::usleep(1000))
    if (info_field(server, "clients", "blocked_clients") == std::to_string(wanted)) return true;
  return false;
}

bool replicates(RedisServer& master) {
  for (const Deadline until = Clock::now() + std::chrono::seconds{10}; Clock::now() < until;) {
    master.command({"SET", "written", "1"});
    // Before the first replica there is no stream, and WAIT takes its empty acknowledgement for one of the write.
    const bool stream = info_field(master, "replication", "master_repl_offset") != "0";
    if (master.command({"WAIT", "1", "500"}).integer == 1 && stream) return true;
  }
  return false;
}

}  // namespace dlock::test
