// SPDX-License-Identifier: Apache-2.0
// Short forms for the tests of recipes that live in a database. The cases in this folder are built
// into the tests of each store, whose faults.hpp says what differs.
#pragma once
#include <poll.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <memory>
#include <string_view>
#include <utility>
#include "support/client.hpp"
#include "support/polling.hpp"
#include "support/proxy.hpp"

namespace dlock::test {

using namespace std::chrono_literals;

inline Key key(std::string_view text) { return *Key::parse(text); }

inline std::unique_ptr<Waiter> waiter(Backend& b, const Request& r) {
  auto w = b.enqueue(r);
  if (!w) FAIL(w.error().message);
  return std::move(*w);
}
inline Granted take_all(Backend& b, const Request& r) {
  const auto p = answer_of(*waiter(b, r));
  REQUIRE(std::holds_alternative<Granted>(p));
  return std::get<Granted>(p);
}
// A session over which key "k" was granted so often, which decides how the next grant is sent: at
// first as text, then prepared, then its values alone.
inline void warm_up(Backend& b, int grants) {
  (void)b.inspect(key("k"));
  for (int i = 0; i < grants; ++i) release_or_fail(b, acquire_or_fail(b, request(key("k"), 30s)));
}
// How long after `frees` the waiter has its grant, which it gives back.
template <class Frees>
Duration granted_behind(Waiter& w, Backend& its, Frees frees) {
  const Deadline from = Clock::now();
  frees();
  const Lease lease = granted_within(w);
  const Deadline until = Clock::now();
  release_or_fail(its, lease);
  return std::chrono::duration_cast<Duration>(until - from);
}
inline bool readable(int fd, int ms) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, ms) == 1;
}

// A grant whose reply is lost: of this key, in the reply to this statement, over a session of so
// many grants.
struct LostGrant {
  const char *key, *statement;
  bool quietly;
  int grants;
};

}  // namespace dlock::test
