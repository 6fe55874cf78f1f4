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

// Answers have the time that a loaded machine needs.
inline Settings calm() { return quick(2s, 5s); }

inline Key key(std::string_view text) { return *Key::parse(text); }

inline std::unique_ptr<Waiter> waiter(Backend& b, const Request& r) {
  auto w = b.enqueue(r);
  if (!w) FAIL(w.error().message);
  return std::move(*w);
}
inline Granted take_all(Backend& b, const Request& r) {
  const auto w = waiter(b, r);
  Result<Progress> p = fail(Errc::internal, "");
  becomes([&] { return (p = w->poll(0us)) || !retryable(p.error().code); });
  if (!p) FAIL(p.error().message);
  REQUIRE(std::holds_alternative<Granted>(*p));
  return std::get<Granted>(std::move(*p));
}
// The answer to a renewal, which is asked for again while there is none.
inline Renewal renewed(Backend& b, const Lease& lease, Duration ttl) {
  Result<Renewal> r = fail(Errc::internal, "");
  becomes([&] { return (r = b.renew(lease, ttl)) || !retryable(r.error().code); });
  if (!r) FAIL(r.error().message);
  return *r;
}
// A session over which key "k" was granted so often, which decides how the next grant is sent: at
// first as text, then prepared, then its values alone.
inline void warm_up(Backend& b, int grants) {
  (void)b.inspect(key("k"));
  for (int i = 0; i < grants; ++i) release_or_fail(b, acquire_or_fail(b, request(key("k"), 30s)));
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
