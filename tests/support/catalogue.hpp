// SPDX-License-Identifier: Apache-2.0
// For the sources that put a store into the catalogue (stores.hpp), stores_*.cpp.
#pragma once
#include <fmt/format.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include "support/clock_file.hpp"
#include "support/stores.hpp"

namespace dlock::test {

struct Named {
  std::string_view name;
  const char* (*missing)();
  std::unique_ptr<Store> (*make)(const StoreSetup&);
};
bool add_store(const Named&);  // true

template <class T>
bool add_store(std::string_view name, const char* (*missing)()) {
  return add_store({name, missing, [](const StoreSetup& setup) -> std::unique_ptr<Store> {
                      return std::make_unique<T>(setup);
                    }});
}

// The kinds of a recipe that keeps a queue: writers behind writers, writers behind readers, readers
// behind a writer (which are granted together, so in no order), permits.
std::vector<Kind> queue_kinds(const std::string& recipe);

// The server at `port`, or a proxy in front of it.
class Way {
 public:
  Way(const StoreSetup& setup, std::uint16_t port) : port_(port) {
    if (setup.proxied) proxy_ = std::make_unique<Proxy>(port);
  }
  std::string host() const { return fmt::format("127.0.0.1:{}", proxy_ ? proxy_->port() : port_); }
  std::vector<Proxy*> proxies() const {
    return proxy_ ? std::vector{proxy_.get()} : std::vector<Proxy*>{};
  }

 private:
  const std::uint16_t port_;
  std::unique_ptr<Proxy> proxy_;
};

// A store on one server.
template <class Server>
class OneServer : public Store {
 public:
  void freeze() override { server_.freeze(); }
  void thaw() override { server_.thaw(); }
  void kill() override { server_.kill(); }
  void start() override { server_.start(); }
  pid_t pid() const override { return server_.pid(); }
  std::vector<Proxy*> proxies() override { return way_.proxies(); }

 protected:
  OneServer(const StoreSetup& setup, typename Server::Setup servers)
      : server_(std::move(servers)), way_(setup, server_.port()) {}
  Server server_;
  Way way_;
};

// The wall clock of a server that is started in this environment.
class ServerClock {
 public:
  explicit ServerClock(const StoreSetup& setup) : movable_(setup.movable_clock) {}
  std::vector<std::string> environment() const {
    if (!movable_) return {};
    return {"LD_PRELOAD=" CLOCK_SHIFT, "CLOCK_SHIFT_FILE=" + file_.path()};
  }
  const std::string& directory() const { return file_.directory(); }
  void step(std::chrono::seconds by) {
    if (!movable_) throw std::runtime_error("no clock to step");
    file_.step_wall(by);
  }

 private:
  const bool movable_;
  ClockFile file_;
};

// Rows as the clients print them for scripts: a line each, with tabs.
template <class Answer>
std::string lines(const Answer& answer) {
  std::string text;
  for (std::size_t row = 0; row < answer.rows.size(); ++row)
    for (std::size_t column = 0; column < answer.rows[row].size(); ++column) {
      text += answer.text(column, row);
      text += column + 1 < answer.rows[row].size() ? '\t' : '\n';
    }
  return text;
}

}  // namespace dlock::test
