// SPDX-License-Identifier: Apache-2.0
// All stores, and what can be done to their servers.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "support/proxy.hpp"

namespace dlock::test {

// A recipe in one mode: the options of the first holder, and of the waiters behind it.
struct Kind {
  std::string recipe;
  std::vector<std::string> holds, waits;
  bool ordered = true;  // the waiters are granted in the order in which they came

  std::string name() const;  // "lease exclusive, -s"; "lease" if both are
};

// Without anything: as distributions configure the servers, by URLs without items.
struct StoreSetup {
  bool as_installed = true;
  std::string items{};         // of the URL, for Redis: "?restart_grace=0"
  bool durable = false;        // a restart forgets nothing
  bool proxied = false;        // the URL leads through proxies
  bool movable_clock = false;  // step_clock() works
  std::size_t servers = 3;     // of redlock and etcd
  std::size_t harmed = 3;      // of redlock: so many are frozen, flushed, stepped
};

class Store {
 public:
  virtual ~Store() = default;
  virtual std::string url() const = 0;
  virtual void freeze() = 0;
  virtual void thaw() = 0;
  virtual void restart() = 0;  // killed and started, as after a crash; of several the next one
  virtual void flush();        // emptied while it runs; of several so many as exclusion needs
  virtual void fail_over();    // a master is killed, and its replica takes over
  virtual void step_clock(std::chrono::seconds);
  // What belongs to the key is moved to another server; `midway` when the half of it is there.
  virtual void move(const std::string& key, const std::function<void()>& midway);
  virtual std::vector<Kind> kinds() const = 0;  // the first is the default recipe, exclusive
  virtual int least_ttl() const { return 2; }   // seconds
  virtual std::vector<Proxy*> proxies() { return {}; }
  // in each request that counts, of keys whose names begin with "fault"
  virtual std::string request_text() const { return "fault"; }
};

// file, redis, sentinel, cluster, redlock, zookeeper, mysql, postgresql, etcd.
bool is_installed(const std::string& name);  // its server
std::unique_ptr<Store> make_store(const std::string& name, const StoreSetup& setup = {});

}  // namespace dlock::test
