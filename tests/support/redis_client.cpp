// SPDX-License-Identifier: Apache-2.0
#include "support/redis_client.hpp"
#include <unistd.h>

namespace dlock::test {

std::unique_ptr<Backend> open_redis(const std::string& url, const Settings& settings,
                                    std::string_view recipe) {
  return open_backend(redis::factory, url, settings, recipe);
}

std::string info_field(RedisServer& server, std::string_view section, std::string_view field) {
  const std::string info = server.info(section);
  const std::size_t at = info.find("\n" + std::string{field} + ":");
  if (at == info.npos) return "";
  const std::size_t from = at + field.size() + 2;
  return info.substr(from, info.find_first_of("\r\n", from) - from);
}

bool blocked_clients(RedisServer& server, int wanted) {
  for (const Deadline until = Clock::now() + std::chrono::seconds{5}; Clock::now() < until;
       ::usleep(1000))
    if (info_field(server, "clients", "blocked_clients") == std::to_string(wanted)) return true;
  return false;
}

bool replicates(RedisServer& master) {
  for (const Deadline until = Clock::now() + std::chrono::seconds{10}; Clock::now() < until;) {
    master.command({"SET", "written", "1"});
    // Before the first replica there is no stream, and WAIT takes its empty acknowledgement for one
    // of the write.
    const bool stream = info_field(master, "replication", "master_repl_offset") != "0";
    if (master.command({"WAIT", "1", "500"}).integer == 1 && stream) return true;
  }
  return false;
}

}  // namespace dlock::test
