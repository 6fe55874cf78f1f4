// SPDX-License-Identifier: Apache-2.0
#include "support/redis_server.hpp"
#include <fmt/format.h>
#include <unistd.h>
#include <cstdlib>
#include <stdexcept>

namespace dlock::test {

const char* missing_redis() { return installed("redis-server") ? nullptr : "redis-server"; }

RedisServer::RedisServer(Setup setup) : setup_(std::move(setup)), port_(free_port()) {
  if (setup_.movable_clock || setup_.uptime > std::chrono::seconds{0}) {
    clock_ = std::make_unique<ClockFile>();
    // it counts its uptime by its wall clock, which is right once it has started
    clock_->set_wall(-setup_.uptime);
    setup_.environment.push_back("LD_PRELOAD=" CLOCK_SHIFT);
    setup_.environment.push_back("CLOCK_SHIFT_FILE=" + clock_->path());
  }
  configure();
  start();
  if (setup_.uptime > std::chrono::seconds{0}) step_clock(setup_.uptime);
}

void RedisServer::configure() const {
  const bool sentinel = !setup_.arguments.empty();
  write_file(directory() + "/redis.conf",
             fmt::format("port {}\nbind 127.0.0.1\ndir {}\nlogfile {}/log\nunixsocket {}/sock\n"
                         "{}{}\n",
                         setup_.plain_port ? port_ : 0, directory(), directory(), directory(),
                         sentinel ? "" : "save \"\"\n", fmt::join(setup_.config, "\n")));
}

void RedisServer::step_clock(std::chrono::seconds by) {
  const auto uptime = [&] {
    const std::string text = info("server");
    const std::size_t at = text.find("uptime_in_seconds:");
    return at == text.npos ? 0 : std::atoll(text.c_str() + at + 18);
  };
  if (!clock_) throw std::runtime_error("no clock to step");
  const auto before = uptime();
  clock_->step_wall(by);
  // It reads the clock ten times a second, and computes its uptime from that.
  const Deadline until = Clock::now() + std::chrono::seconds{10};
  while (std::llabs(uptime() - before - by.count()) > 5 && Clock::now() < until) ::usleep(2000);
}

std::string RedisServer::url() const { return fmt::format("redis://127.0.0.1:{}", port_); }
std::string RedisServer::unix_url() const {
  return fmt::format("redis+unix://{}/sock", directory());
}

void RedisServer::start() {
  const std::string conf = directory() + "/redis.conf";
  std::vector<std::string> words{"redis-server", conf};
  words.insert(words.end(), setup_.arguments.begin(), setup_.arguments.end());
  process_ = ServerProcess{start_server(words, {.environment = setup_.environment})};
  if (setup_.wait_ready) wait_ready();
}

void RedisServer::wait_ready() {
  const Deadline until = Clock::now() + std::chrono::seconds{60};
  while (Clock::now() < until) {
    if (process_.ended()) break;
    admin_.reset();
    const auto reply = RawRedis{{{}, 0, directory() + "/sock"}}.ask({"PING"}, until);
    if (reply && !reply->text.starts_with("LOADING")) return;
    ::usleep(2000);
  }
  throw std::runtime_error("redis-server does not start; see " + directory() + "/log");
}

void RedisServer::kill() {
  admin_.reset();
  process_.kill();
}

redis::Reply RedisServer::command(std::span<const std::string_view> words) {
  if (!admin_) admin_ = std::make_unique<RawRedis>(Endpoint{{}, 0, directory() + "/sock"});
  auto reply = admin_->ask(words, Clock::now() + std::chrono::seconds{30});
  if (!reply) {
    admin_.reset();
    throw std::runtime_error(fmt::format("no answer to {}", words.front()));
  }
  return std::move(*reply);
}

std::optional<redis::Reply> RawRedis::ask(std::span<const std::string_view> words, Deadline by) {
  connection_.add(words);
  while (Clock::now() < by) {
    const auto open = connection_.step_open(Clock::now());
    if (!open || (*open && !connection_.push())) return std::nullopt;
    if (*open) {
      auto reply = connection_.receive();
      if (!reply) return std::nullopt;
      if (*reply) return std::move(**reply);
    }
    wait_for(connection_.poll_fd(), connection_.poll_events(),
             {std::min(by, connection_.poll_until())});
  }
  return std::nullopt;
}

std::string RedisServer::info(std::string_view section) { return command({"INFO", section}).text; }

}  // namespace dlock::test
