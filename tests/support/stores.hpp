// SPDX-License-Identifier: Apache-2.0
// Stores as distributions configure them, by URLs without items.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dlock::test {

// A recipe in one mode: the options of the first holder, and of the waiters behind it.
struct Kind {
  std::string recipe;
  std::vector<std::string> holds, waits;
  bool ordered = true;  // the waiters are granted in the order in which they came

  std::string name() const;  // "lease exclusive, -s"; "lease" if both are
};

class Store {
 public:
  virtual ~Store() = default;
  virtual std::string url() const = 0;
  virtual void freeze() = 0;
  virtual void thaw() = 0;
  virtual void restart() = 0;  // killed and started, as after a crash
  virtual void flush();      // emptied while it runs; of several servers so many as exclusion needs
  virtual void fail_over();  // a master is killed, and its replica takes over
  // What belongs to the key is moved to another server; `midway` when the half of it is there.
  virtual void move(const std::string& key, const std::function<void()>& midway);
  virtual std::vector<Kind> kinds() const = 0;  // the first is the default recipe, exclusive
  virtual int least_ttl() const { return 2; }   // seconds
};

// file, redis, sentinel, cluster, redlock, zookeeper, mysql.
bool is_installed(const std::string& name);  // its server
std::unique_ptr<Store> make_store(const std::string& name);

}  // namespace dlock::test
