// SPDX-License-Identifier: Apache-2.0
// Host names: a name service that hangs, and addresses of which the first is refused.
#include "faults.hpp"
#include "support/name_service.hpp"

using namespace dlock;
using namespace dlock::test;

TEST_CASE("names: the second address, and reconnecting while the name service hangs") {
  Db db{server()};
  const auto at = [&](const std::string& host) {
    std::string url = db.url();
    return url.replace(url.find("127.0.0.1"), 9, host);
  };
  name_service::answer("my.test", {"127.0.0.9", "127.0.0.1"});
  const auto backend = open_recipe(at("my.test"), quick(5s, 5s));
  const Lease lease = acquire_or_fail(*backend, request(key("k"), 60s));
  name_service::hang("my.test");
  kill_sessions(db);
  CHECK(kept(backend->renew(lease, 60s)));
  name_service::hang("none.test");
  const auto p =
      waiter(*open_recipe(at("none.test"), quick(5s, 200ms)), request(key("k")))->poll(0us);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::unavailable);
  name_service::answer("my.test", {});
  name_service::answer("none.test", {});
}
