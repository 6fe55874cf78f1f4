// SPDX-License-Identifier: Apache-2.0
// Stores as distributions configure them, by URLs without items.
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace dlock::test {

// A recipe in one mode: the options of the first holder, and of the waiters behind it.
struct Kind {
  std::string recipe;
  std::vector<std::string> holds, waits;
  bool ordered = true;  // the waiters are granted in the order in which they came

  std::string name() const;  // "lease -x, -s"
};

class Store {
 public:
  virtual ~Store() = default;
  virtual std::string url() const = 0;
  virtual void freeze() = 0;
  virtual void thaw() = 0;
  virtual void restart() = 0;                   // killed and started, as after a crash
  virtual std::vector<Kind> kinds() const = 0;  // the first is the default recipe, exclusive
  virtual int least_ttl() const { return 2; }   // seconds
};

// file, redis, redlock, zookeeper, mysql. nullptr: its server is not installed.
std::unique_ptr<Store> make_store(const std::string& name);

}  // namespace dlock::test
