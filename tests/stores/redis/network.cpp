// SPDX-License-Identifier: Apache-2.0
// Slow, silent, broken and hostile servers: every call ends within its timeout.
#include <mutex>
#include "faults.hpp"
#include "support/stranger.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// Sends `answer` to any first request of a connection, then waits for the peer to close.
class Liar {
 public:
  explicit Liar(const std::string& answer)
      : stranger_([this, answer](const Fd& peer) {
          if (hears(peer)) say(peer, answer);
          while (hears(peer)) {}
        }) {}
  std::string url() const { return fmt::format("redis://127.0.0.1:{}", stranger_.port()); }
  std::string heard() const {
    const std::lock_guard lock{mutex_};
    return heard_;
  }

 private:
  bool hears(const Fd& peer) {
    const std::string text = test::heard(peer);
    const std::lock_guard lock{mutex_};
    heard_ += text;
    return !text.empty();
  }

  std::string heard_;
  mutable std::mutex mutex_;
  const Stranger stranger_;
};

std::string bulk(std::string_view text) { return fmt::format("${}\r\n{}\r\n", text.size(), text); }

Error first_poll(const std::string& url, const Settings& settings = quick()) {
  auto backend = open_redis(url, settings);
  const auto p = (*backend->enqueue(request(key("k"))))->poll(0s);
  REQUIRE_FALSE(p);
  return p.error();
}

}  // namespace

TEST_CASE(
    "a server that was never reached is tried for connect_timeout, without op_timeout on top") {
  Settings settings;
  settings.connect_timeout = 100ms;
  settings.op_timeout = 60s;
  const auto backend = open_redis("redis://127.0.0.1:1", settings);
  const Deadline begun = Clock::now();
  const auto view = backend->inspect(*Key::parse("k"));
  REQUIRE_FALSE(view);
  CHECK(view.error().code == Errc::unavailable);
  CHECK(Clock::now() - begun < 30s);
}

TEST_CASE("a server that drips, is silent or away: a renewal ends at op_timeout, nothing is lost") {
  struct Fault {
    const char* what;
    void (*begin)(Proxy&);
    void (*end)(Proxy&);
  };
  for (const Fault& fault :
       // each byte well within the timeout, the whole answer in 3 s
       {Fault{"drips", [](Proxy& p) { p.drip(Proxy::to_client, 1, 60ms); },
              [](Proxy& p) { p.drip(Proxy::to_client, 0, 0ms); }},
        Fault{"hears nothing", [](Proxy& p) { p.stall(Proxy::to_server, true); },
              [](Proxy& p) { p.stall(Proxy::to_server, false); }},
        Fault{"says nothing", [](Proxy& p) { p.stall(Proxy::to_client, true); },
              [](Proxy& p) { p.stall(Proxy::to_client, false); }},
        Fault{"away", [](Proxy& p) { p.refuse(true), p.cut(); },
              [](Proxy& p) { p.refuse(false); }}}) {
    CAPTURE(fault.what);
    Proxied p;
    auto backend = open_redis(p.url(), quick());
    const Lease lease = acquire_or_fail(*backend, request(key("k"), 600s));
    REQUIRE(kept(renewed(*backend, lease, 600s)));
    fault.begin(p.proxy);
    CHECK(ends_within(700ms, [&] {
      const auto answer = backend->renew(lease, 600s);
      REQUIRE_FALSE(answer);
      CHECK(retryable(answer.error().code));
    }));
    fault.end(p.proxy);
    CHECK(kept(renewed(*backend, lease, 600s)));
    release_or_fail(*backend, lease);
  }
}

TEST_CASE(
    "a grant with an invalid token, and a queue place for a request that does not wait, are "
    "malformed replies") {
  const std::string greeting = bulk(
                                   "redis_version:7.0.0\r\nredis_mode:standalone\r\nrun_id:"
                                   "a\r\nuptime_in_seconds:100000\r\n") +
                               bulk("role:master\r\n") + bulk("maxmemory:0\r\n");
  const std::string granted = "*4\r\n" + bulk("granted") + bulk("1700000000000000");
  for (const std::string& lie : {granted + bulk("0") + ":0\r\n", granted + bulk("7") + ":-1\r\n",
                                 "*7\r\n" + bulk("waiting") + bulk("1700000000000000") + ":0\r\n" +
                                     bulk("0") + ":1\r\n" + bulk("") + bulk("")}) {
    CAPTURE(lie);
    const Liar liar(greeting + lie);
    auto backend = open_redis(liar.url(), quick(2s, 2s));
    Request once = request(key("k"));
    once.wait = false;
    const auto p = (*backend->enqueue(once))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::protocol);
    backend.reset();
  }
}

TEST_CASE("a server that does not report its uptime counts as just started") {
  const Liar liar(bulk("redis_version:7.0.0\r\nrun_id:a\r\n") + bulk("role:master\r\n") +
                  bulk("maxmemory:0\r\n") +  // and a place in its queue
                  "*6\r\n" + bulk("waiting") + ":1\r\n:0\r\n:0\r\n:0\r\n" + bulk(""));
  auto backend = open_redis(liar.url(), quick(2s, 2s));
  const auto p = (*backend->enqueue(request(key("k"))))->poll(0s);
  REQUIRE((p && std::holds_alternative<Waiting>(*p)));
  CHECK(backend->health().in_grace_period);
}

TEST_CASE("no request is sent before the whole greeting arrived and was good") {
  const std::string server =
                        bulk("redis_version:7.0.0\r\nrun_id:a\r\nuptime_in_seconds:100000\r\n"),
                    master = bulk("role:master\r\n");
  for (const std::string& answer :
       {std::string{}, server, server + master, server + "+OK\r\n" + bulk(""),
        server + ":1\r\n" + bulk(""), server + master + "*0\r\n",
        server + "-LOADING\r\n" + bulk(""), "$-1\r\n" + master + bulk("")}) {
    CAPTURE(answer);
    const Liar liar(answer);
    const Error e = call_until([&] { return liar.heard().find("INFO") != std::string::npos; },
                               [&] { return first_poll(liar.url(), quick(300ms, 300ms)); });
    CHECK(retryable(e.code));
    CHECK(e.message.find("127.0.0.1:") != std::string::npos);
    CHECK(liar.heard().find("EVAL") == std::string::npos);
  }
}

TEST_CASE("a connection that was cut is replaced without an error") {
  Proxied p;
  auto backend = open_redis(p.url(), patient());
  const Lease lease = acquire_or_fail(*backend, request(key("cut"), 600s));
  for (int i = 0; i < 5; ++i) {
    p.proxy.cut();
    CHECK(kept(backend->renew(lease, 600s)));
  }
  CHECK(backend->release(lease) == Released::yes);
}

TEST_CASE("no server: refused, silent, unknown host") {
  Proxied p;
  p.proxy.refuse(true);
  CHECK(first_poll(p.url()).code == Errc::unavailable);
  p.proxy.refuse(false);
  p.proxy.blackhole(true);
  CHECK(ends_within(
      700ms, [&] { CHECK(first_poll(p.url(), quick(500ms, 400ms)).code == Errc::unavailable); }));
  CHECK(first_poll("redis://127.0.0.1:1").code == Errc::unavailable);
  const Error unknown = first_poll("redis://no-such-host.invalid");
  CHECK(unknown.code == Errc::unavailable);
  CHECK(unknown.message.find("no-such-host.invalid") != std::string::npos);
  CHECK(first_poll("redis+unix:///nowhere/sock").code == Errc::unavailable);
}

TEST_CASE("a server that does not speak Redis is refused, and never gets a request") {
  for (const std::string& said :
       {std::string{"HTTP/1.1 400 Bad Request\r\n\r\n"},
        "$1000000000\r\n" + std::string(3 << 20, 'x'), std::string{"*1000000000\r\n"}})
    CHECK(first_poll(Liar{said}.url(), patient()).code == Errc::unavailable);
  const Error lie = first_poll(Liar{"-ERR \x1b[2Jgone\r\n-ERR x\r\n"}.url());
  CHECK(lie.message.find('\x1b') == std::string::npos);
  CHECK(first_poll(Liar{"-DENIED Redis is running in protected mode\r\n"}.url(), patient()).code ==
        Errc::denied);
  CHECK(first_poll(Liar{"-ERR max number of clients reached\r\n"}.url()).code == Errc::unavailable);
}
