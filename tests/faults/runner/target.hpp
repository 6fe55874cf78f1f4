// SPDX-License-Identifier: Apache-2.0
// The recipes under test, each on servers of its own, and what can be done to those.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>
#include "fault.hpp"
#include "support/proxy.hpp"

namespace dlock::runner {

// A recipe and its servers, prepared for one fault.
class Target {
 public:
  virtual ~Target() = default;
  virtual std::string url() const = 0;
  virtual void restart() {}
  virtual void wipe() {}
  virtual void flush() {}
  // all servers, or as many as the fault means
  virtual void freeze() {}
  virtual void thaw() {}
  virtual void step_clock(std::chrono::seconds) {}
  virtual std::vector<test::Proxy*> proxies() { return {}; }
  virtual std::string request_text() const { return "fault"; }  // in each request that counts
};

struct Recipe {
  std::string_view name;    // of the row, and for --target
  std::string_view recipe;  // --recipe
  int ttl;                  // seconds
  bool ordered;             // I11
  bool attached;            // to its processes, without a deadline
  bool connection;          // ends with a connection
  std::size_t share;        // of the grants without faults, in thousandths
  std::unique_ptr<Target> (*make)(Fault);
  bool (*installed)();
};

const std::vector<Recipe>& recipes();

bool applies(const Recipe&, Fault);
// Why exclusion is not promised there (dlock-backends(7)); empty: it is.
std::string_view not_covered(const Recipe&, Fault);

}  // namespace dlock::runner
