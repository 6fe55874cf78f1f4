// SPDX-License-Identifier: Apache-2.0
// The addresses of an ensemble for its next connection, as the library takes them: it looks names
// up without a bound, so it is never given one.
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
  // Asks anew, for all names at once.
  Servers(const std::vector<Url::Host>&, Deadline until);

  // "10.0.0.1:2181,::1:2181": what is known, once all have answered or the first some time ago.
  // nullopt: not yet. Errc::unavailable: not one host has an address.
  std::optional<Result<std::string>> answer();
  // Waits until there may be more to it, or until interrupt_fd is readable: false.
  bool wait(int interrupt_fd);

 private:
  std::list<Lookup> lookups_;
  std::optional<Deadline> first_;  // when one had an address
};

}  // namespace dlock::zookeeper
