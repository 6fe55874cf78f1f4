// SPDX-License-Identifier: Apache-2.0
#include "support/redis_server.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace dlock::test {

RedisServer::RedisServer(Setup setup) : setup_(std::move(setup)), port_(free_port()) {
  const std::string conf = directory() + "/redis.conf";
  std::FILE* out = std::fopen(conf.c_str(), "we");
  if (!out) throw std::runtime_error("cannot write " + conf);
  const bool sentinel = !setup_.arguments.empty();
  fmt::print(out, "port {}\nbind 127.0.0.1\ndir {}\nlogfile {}/log\nunixsocket {}/sock\n", setup_.plain_port ? port_ : 0,
             directory(), directory(), directory());
  if (!sentinel) fmt::print(out, "save \"\"\n");
  for (const auto& line : setup_.config) fmt::print(out, "{}\n", line);
  std::fclose(out);
  start();
}

RedisServer::~RedisServer() { kill(); }

std::string RedisServer::url() const { return fmt::format("redis://127.0.0.1:{}", port_); }
std::string RedisServer::unix_url() const { return fmt::format("redis+unix://{}/sock", directory()); }

void RedisServer::start() {
  const std::string conf = directory() + "/redis.conf";
  std::vector<char*> argv{const_cast<char*>("redis-server"), const_cast<char*>(conf.c_str())};
  for (auto& a : setup_.arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);  // a Ctrl-C at the terminal is for the tests
    for (auto& e : setup_.environment) ::putenv(e.data());
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  if (setup_.wait_ready) wait_ready();
}

void RedisServer::wait_ready() {
  const Deadline until = Clock::now() + std::chrono::seconds{10};
  while (Clock::now() < until) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      break;
    }
    admin_.reset();
    auto c = redis::Connection::open({{}, 0, directory() + "/sock"}, nullptr, std::chrono::seconds{5}, {until});
    if (c) {
      (*c)->add({"PING"});
      const auto sent = (*c)->flush({until});
      const auto reply = (*c)->receive({until});
      if (sent && reply && *reply && !(*reply)->text.starts_with("LOADING")) return;
    }
    ::usleep(2000);
  }
  throw std::runtime_error("redis-server does not start; see " + directory() + "/log");
}

void RedisServer::kill() {
  admin_.reset();
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void RedisServer::freeze() {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
}
void RedisServer::thaw() { ::kill(pid_, SIGCONT); }

redis::Reply RedisServer::command(std::span<const std::string_view> words) {
  const redis::Wait wait{Clock::now() + std::chrono::seconds{5}};
  if (!admin_) {
    auto c = redis::Connection::open({{}, 0, directory() + "/sock"}, nullptr, std::chrono::seconds{5}, wait);
    if (!c) throw std::runtime_error(c.error().message);
    admin_ = std::move(*c);
  }
  admin_->add(words);
  const auto sent = admin_->flush(wait);
  auto reply = admin_->receive(wait);
  if (!sent || !reply || !*reply) {
    admin_.reset();
    throw std::runtime_error(fmt::format("no answer to {}", words.front()));
  }
  return std::move(**reply);
}

std::string RedisServer::info(std::string_view section) { return command({"INFO", section}).text; }

}  // namespace dlock::test
