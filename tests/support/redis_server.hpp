// SPDX-License-Identifier: Apache-2.0
// Throw-away Redis servers for tests: private directory, private port; they end with the object or
// the test program.
#pragma once
#include <sys/types.h>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include "redis/wire/reply.hpp"
#include "support/clock_file.hpp"
#include "support/server.hpp"

namespace dlock::test {

const char* missing_redis();  // what is not installed; nullptr: nothing

// Commands over one connection, without a greeting; waits for each reply.
class RawRedis {
 public:
  explicit RawRedis(const Endpoint& at)
      : connection_(at, nullptr, std::chrono::seconds{5}, no_deadline) {}
  // Nothing: none by then, or the connection is broken.
  std::optional<redis::Reply> ask(std::span<const std::string_view> words, Deadline by);
  std::optional<redis::Reply> ask(std::initializer_list<std::string_view> words, Deadline by) {
    return ask(std::span{words.begin(), words.size()}, by);
  }

 private:
  redis::RespStream connection_;
};

class RedisServer {
 public:
  struct Setup {
    std::vector<std::string> config;       // lines of redis.conf, after the usual ones
    std::vector<std::string> arguments;    // "--sentinel"
    std::vector<std::string> environment;  // "LD_PRELOAD=..."
    bool plain_port = true;                // false: no TCP without TLS
    bool wait_ready = true;
    bool movable_clock = false;  // step_clock() works
    // it reports this uptime from its first start on, but not after a restart
    std::chrono::seconds uptime{0};
  };
  explicit RedisServer(Setup setup);
  RedisServer() : RedisServer(Setup{}) {}
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::string url() const;       // redis://127.0.0.1:port
  std::string unix_url() const;  // redis+unix:///...
  std::uint16_t port() const noexcept { return port_; }
  const std::string& directory() const noexcept { return directory_.path(); }
  pid_t pid() const noexcept { return process_.pid(); }

  void kill();   // SIGKILL, reaped
  void start();  // again, with the same data
  void restart() { kill(), start(); }
  void freeze() { process_.freeze(); }
  void thaw() { process_.thaw(); }

  void step_clock(std::chrono::seconds by);  // shifts its wall clock, relative to now

  // Over a connection of its own to the unix socket; throws when there is no answer within 5 s.
  redis::Reply command(std::initializer_list<std::string_view> words) {
    return command(std::span{words.begin(), words.size()});
  }
  redis::Reply command(std::span<const std::string_view> words);
  std::string info(std::string_view section);

 private:
  void configure() const;
  void wait_ready();

  Setup setup_;
  TestDirectory directory_;
  std::uint16_t port_;
  ServerProcess process_;
  std::unique_ptr<ClockFile> clock_;
  std::unique_ptr<RawRedis> admin_;
};

}  // namespace dlock::test
