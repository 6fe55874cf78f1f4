// SPDX-License-Identifier: Apache-2.0
// All stores, and what can be done to their servers.
#pragma once
#include <sys/types.h>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
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
  std::string items{};                // of the URL, for Redis: "?restart_grace=0"
  std::vector<std::string> config{};  // lines of the server's configuration, after the usual ones
  bool durable = false;               // a restart forgets nothing
  bool proxied = false;               // the URL leads through proxies
  bool movable_clock = false;         // step_clock() works
  std::size_t servers = 3;            // of redlock and etcd
  std::size_t harmed = 3;             // of redlock: so many are frozen, wiped, stepped
};

// What a store cannot do, throws.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::string url() const = 0;
  virtual std::string fresh(const std::string& name);  // the URL of a part that was never used
  virtual void freeze();
  virtual void thaw();
  virtual void kill();
  virtual void start();      // with the same data
  virtual void restart();    // kill() and start(), as after a crash; of several the next one
  virtual void wipe();       // emptied while it runs; of several so many as exclusion needs
  virtual void fail_over();  // a master is killed, and its replica takes over
  virtual void step_clock(std::chrono::seconds);
  // What belongs to the key is moved to another server; `midway` when the half of it is there.
  virtual void move(const std::string& key, const std::function<void()>& midway);
  virtual pid_t pid() const;  // of the server; of the first of several
  // What its own client would tell it, and its answer; to the first of several.
  virtual std::string tell(const std::vector<std::string>& words);
  virtual std::vector<Kind> kinds() const;     // the first is the default recipe, exclusive
  virtual int least_ttl() const { return 2; }  // seconds
  virtual std::vector<Proxy*> proxies() { return {}; }
  void cut();  // all connections through the proxies, and new ones, until heal()
  void heal();
  // in each request that counts, of keys whose names begin with "fault"
  virtual std::string request_text() const { return "fault"; }
};

// file; redis, sentinel, cluster, redlock; zookeeper; mysql, and mysql-shared: a database on the
// server that ctest started; postgresql; etcd. Of those, whose backends are in this build.
std::string missing(const std::string& name);  // what is not installed for it; empty: nothing
std::unique_ptr<Store> make_store(const std::string& name, const StoreSetup& setup = {});

}  // namespace dlock::test
