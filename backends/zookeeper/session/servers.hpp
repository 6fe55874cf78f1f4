// SPDX-License-Identifier: Apache-2.0
// Finds the addresses of an ensemble for its next connection. The library gets only addresses,
// because it looks up names without a time limit.
#pragma once
#include <poll.h>
#include <list>
#include <optional>
#include <string>
#include <vector>
#include "common/lookup.hpp"
#include "core/url.hpp"

namespace dlock::zookeeper {

class Servers {
 public:
  // Begins a new lookup of all names at once.
  Servers(const std::vector<Url::Host>&, Deadline until);

  // Returns the known addresses, "10.0.0.1:2181,::1:2181", when all names have answers, or some
  // time after the first answer. nullopt: not yet. Errc::unavailable: no host has an address.
  std::optional<Result<std::string>> answer();
  // Waits until more addresses may be known. False: interrupt_fd is readable.
  bool wait(int interrupt_fd);

 private:
  std::list<Lookup> lookups_;
  std::optional<Deadline> first_;  // when the first name had an address
};

}  // namespace dlock::zookeeper
