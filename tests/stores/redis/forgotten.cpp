// SPDX-License-Identifier: Apache-2.0
// A server that may have forgotten a lock: what is read there in its grace. URLs have no items here
// unless a test says why.
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

constexpr const char* recipes[] = {"fair", "set", "setnx-expire", "getset"};

// A prefix, as listing needs one.
std::unique_ptr<Backend> open_at(const RedisServer& server, const char* recipe,
                                 const std::string& items = "?prefix=jobs:") {
  return open_redis(server.url() + items, {}, recipe);
}

template <class T>
void unknown(const Result<T>& answer) {
  REQUIRE_FALSE(answer.has_value());
  INFO(answer.error().message);
  CHECK(answer.error().code == Errc::unavailable);
  CHECK(answer.error().message.find("nothing is granted for") != std::string::npos);
}

}  // namespace

TEST_CASE("forgotten: in the grace of a server without data no key is said to be free") {
  for (const char* recipe : recipes) {
    CAPTURE(recipe);
    RedisServer server{{.uptime = an_hour}};
    const Key k = key("k"), other = key("other");
    auto before = open_at(server, recipe);
    const Lease lease = acquire_or_fail(*before, request(k));
    CHECK(before->inspect(k).value()->unknown_reason.empty());
    CHECK_FALSE(before->inspect(other).value().has_value());
    server.restart();

    auto after = open_at(server, recipe);
    for (const Key& any : {k, other}) {
      const auto seen = after->inspect(any).value();
      REQUIRE(seen.has_value());
      CHECK(seen->key == any.text());
      CHECK(seen->holders.empty());
      CHECK(seen->unknown_reason.find("nothing is granted for") != std::string::npos);
    }
    CHECK(list(*after).value().empty());
    CHECK(after->health().in_grace_period);
    unknown(after->force_release(k, std::nullopt));
    unknown(after->force_release(k, lease.token));
    if (after->traits().revokes) unknown(after->revoke(k));

    // The operator's word that nothing is ever forgotten.
    auto sure = open_at(server, recipe, "?prefix=jobs:&restart_grace=0");
    CHECK_FALSE(sure->inspect(k).value().has_value());
    CHECK(list(*sure).value().empty());
    CHECK_FALSE(sure->health().in_grace_period);
    CHECK(sure->force_release(k, std::nullopt) == Released::was_not_held);
    if (sure->traits().revokes) CHECK(sure->revoke(k) == Released::was_not_held);
  }
}

TEST_CASE("forgotten: a holder that is found in the grace is shown, asked to stop and removed") {
  for (const char* recipe : recipes) {
    CAPTURE(recipe);
    RedisServer server{{.config = {"appendonly yes", "appendfsync always"}, .uptime = an_hour}};
    const Key k = key("k");
    const Lease lease = acquire_or_fail(*open_at(server, recipe), request(k, 30s));
    server.restart();
    auto after = open_at(server, recipe);
    const auto seen = after->inspect(k).value();
    REQUIRE((seen.has_value() && seen->holders.size() == 1));
    CHECK(seen->holders[0].token == lease.token);
    CHECK_FALSE(seen->unknown_reason.empty());  // it says so of others
    const auto all = list(*after).value();
    REQUIRE(all.size() == 1);
    CHECK(all[0].holders.size() == 1);
    CHECK(after->health().in_grace_period);
    if (after->traits().revokes) CHECK(after->revoke(k) == Released::yes);
    CHECK(after->force_release(k, lease.token) == Released::yes);
    unknown(after->force_release(k, lease.token));
  }
}

TEST_CASE("forgotten: when the grace is over a key without a holder is free") {
  RedisServer server;
  auto backend = open_redis(server.url() + "?restart_grace=1s");  // to see its end
  const Key k = key("k");
  const Lease lease = granted_within(**backend->enqueue(request(k, 1s)), 20s);
  CHECK(backend->force_release(k, lease.token) == Released::yes);
  const auto seen = backend->inspect(k).value();
  REQUIRE(seen.has_value());
  CHECK(seen->unknown_reason.empty());
  CHECK(list(*backend).value().size() == 1);
  CHECK_FALSE(backend->health().in_grace_period);
}

// With the default grace and ttl.
TEST_CASE("forgotten: who waits in the grace has a place, and the first to come is granted first") {
  const Key k = key("k");
  struct Contender {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Waiter> waiter;
  };
  // So much of the grace is left: a busy machine may need more than ten seconds.
  for (const auto left : {10s, 20s, 30s}) {
    RedisServer server{{.uptime = 30s - left}};
    std::vector<Contender> all;
    std::vector<Progress> answers;
    for (std::size_t i = 0; i < 6; ++i) {
      auto backend = open_redis(server.url());
      auto waiter = *backend->enqueue(request(k, 30s));
      answers.push_back(answer_of(*waiter));
      all.push_back({std::move(backend), std::move(waiter)});
    }
    auto looker = open_redis(server.url());
    const auto seen = looker->inspect(k).value();
    Request once = request(k);
    once.wait = false;
    const auto refused = (*looker->enqueue(once))->poll(0s);
    REQUIRE(all[2].waiter->cancel());  // no hindrance to those behind it
    if (std::stoi(info_field(server, "server", "uptime_in_seconds")) >= 30 && left < 30s) continue;
    for (std::size_t i = 0; i < 6; ++i) {
      REQUIRE(std::holds_alternative<Waiting>(answers[i]));
      CHECK(std::get<Waiting>(answers[i]).ahead == i);
      CHECK(std::get<Waiting>(answers[i]).why.find("grants resume in") != std::string::npos);
    }
    CHECK(seen->waiters.size() == 6);
    CHECK(seen->fence == 0);  // nothing was granted
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::unavailable);
    all.erase(all.begin() + 2);
    std::size_t next = 0;
    for (const Deadline end = later(Clock::now(), 120s); next < all.size() && Clock::now() < end;)
      for (std::size_t i = all.size(); i-- > next;) {
        const Progress p = answer_of(*all[i].waiter, 5ms);
        if (!std::holds_alternative<Granted>(p)) continue;
        REQUIRE(i == next);
        CHECK_FALSE(all[i].backend->health().in_grace_period);
        CHECK(std::stoi(info_field(server, "server", "uptime_in_seconds")) >= 30);
        CHECK(all[i].backend->release(std::get<Granted>(p).lease) == Released::yes);
        ++next;
      }
    CHECK(next == all.size());
    return;
  }
}

TEST_CASE("forgotten: a grant whose reply was lost before the restart is no answer in the grace") {
  RedisServer server{{.config = {"appendonly yes", "appendfsync always"}, .uptime = an_hour}};
  const Request r = request(key("k"), 30s);
  acquire_or_fail(*open_redis(server.url()), r);
  server.restart();
  auto backend = open_redis(server.url());
  const auto p = (*backend->enqueue(r))->poll(0s);
  REQUIRE((p && std::holds_alternative<Waiting>(*p)));
  CHECK(backend->health().in_grace_period);
}

// A server without AUTH quotes what it was asked, cut by itself.
TEST_CASE("login: a password of any length is not printed, and the status is the same") {
  RedisServer server{{.config = {"rename-command AUTH \"\""}}};
  std::string all;
  for (int i = 0; i < 400; ++i) all += static_cast<char>('!' + (i * 7) % 90);
  for (const std::size_t length : {1, 2, 8, 40, 100, 110, 115, 119, 120, 121, 125, 128, 200, 400}) {
    CAPTURE(length);
    Settings settings;
    settings.password = "S" + all.substr(0, length);
    const auto p = (*open_redis(server.url(), settings)->enqueue(request(key("k"))))->poll(0s);
    REQUIRE_FALSE(p);
    INFO(p.error().message);
    CHECK(p.error().code == Errc::denied);
    CHECK(p.error().message.find("unknown command") != std::string::npos);
    CHECK(p.error().message.find(settings.password.substr(0, 2)) == std::string::npos);
  }
}
