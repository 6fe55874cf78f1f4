// SPDX-License-Identifier: Apache-2.0
// Real stores that can fall silent: their processes are stopped, so they accept connections and
// never answer.
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace dlock::test {

class SilentStore {
 public:
  virtual ~SilentStore() = default;
  virtual std::string url() const = 0;
  virtual void freeze() = 0;
  virtual void thaw() = 0;
};

// file, flock, redis, redis-set, redlock, zookeeper, mysql, get-lock. nullptr: its server is not
// installed.
std::unique_ptr<SilentStore> make_store(const std::string& name);
std::vector<std::string> store_names();

}  // namespace dlock::test
