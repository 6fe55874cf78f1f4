// SPDX-License-Identifier: Apache-2.0
// What a server may do besides answering: refuse a login, forget one, be full, compact, lose its
// data.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>
#include "faults.hpp"
#include "support/secret_file.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

const Finding* find(const std::vector<Finding>& all, std::string_view what) {
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const Finding& f) { return f.what.starts_with(what); });
  return at == all.end() ? nullptr : &*at;
}

void enable_auth(EtcdServer& server) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"user", "add", "root:top"}, {"user", "grant-role", "root", "root"}, {"auth", "enable"}})
    server.etcdctl(words);
}

}  // namespace

TEST_CASE("user and password: rights, a wrong password, a token that ends, a new password") {
  EtcdServer server{in_memory(1, {"--auth-token-ttl", "1"})};
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"user", "add", "root:top"},
           {"user", "grant-role", "root", "root"},
           {"role", "add", "locks"},
           {"role", "grant-permission", "locks", "--prefix=true", "readwrite", "dlock/"},
           {"user", "add", "job:secret"},
           {"user", "grant-role", "job", "locks"},
           {"auth", "enable"}})
    server.etcdctl(words);
  const std::string host = server.host();
  const auto denied = [&](const std::string& url) {
    const auto p = open_etcd(url, patient())->enqueue(request(key("k"))).value()->poll(0s);
    return !p && p.error().code == Errc::denied;
  };
  CHECK(denied("etcd://" + host));
  CHECK(denied("etcd://job:wrong@" + host));
  CHECK(denied("etcd://job:secret@" + host + "?prefix=elsewhere/"));
  const SecretFile file("secret");
  Settings settings = patient();
  settings.password = "secret";
  settings.password_file = file.path();
  const auto b = open_etcd("etcd://job@" + host, settings),
             c = open_etcd("etcd://job@" + host, settings);
  Lease lease = take(*b, request(key("k"), 600s));
  auto w = c->enqueue(request(key("k"), 60s)).value();
  CHECK_FALSE(granted(w->poll(0s)));
  CHECK_FALSE(granted(w->poll(4s)));  // longer than a token lasts
  CHECK(kept(b->renew(lease, 600s)));
  const auto all = b->doctor().value();
  REQUIRE(find(all, "rights"));
  CHECK(find(all, "rights")->level == Finding::Level::good);
}

TEST_CASE("auth that is enabled while a lock is held and waited for: both log in") {
  EtcdServer server{in_memory()};
  const std::string url = "etcd://root:top@" + server.host();
  const auto b = open_etcd(url, patient()), c = open_etcd(url, patient());
  const Lease lease = take(*b, request(key("k"), 600s));
  auto w = c->enqueue(request(key("k"), 600s)).value();
  CHECK_FALSE(granted(w->poll(0s)));
  enable_auth(server);
  CHECK(kept(b->renew(lease, 600s)));
  CHECK_FALSE(granted(w->poll(3s)));
  CHECK(b->release(lease).value() == Released::yes);
  granted_within(*w);
}

TEST_CASE("JWT: a change of users makes tokens old, and the next request logs in") {
  TestDirectory dir;
  const std::string name = dir.path() + "/key";
  REQUIRE(std::system(fmt::format("openssl genrsa -out {0} 2048 2>&- &&"
                                  " openssl rsa -in {0} -pubout -out {0}.pub 2>&-",
                                  name)
                          .c_str()) == 0);
  EtcdServer server{in_memory(
      1, {"--auth-token",
          fmt::format("jwt,pub-key={0}.pub,priv-key={0},sign-method=RS256,ttl=10m", name)})};
  enable_auth(server);
  const auto b = open_etcd("etcd://root:top@" + server.host(), patient());
  const Lease lease = take(*b, request(key("k"), 600s));
  server.etcdctl({"--user", "root:top", "user", "add", "other:word"});
  CHECK(kept(b->renew(lease, 600s)));
}

TEST_CASE("auth that is not enabled: the user is no error, and the doctor says so") {
  EtcdServer server{in_memory()};
  const auto b = open_etcd("etcd://job:secret@" + server.host(), patient());
  CHECK(b->release(take(*b, request(key("k")))).value() == Released::yes);
  const auto all = b->doctor().value();
  REQUIRE(find(all, "auth"));
  CHECK(find(all, "auth")->level == Finding::Level::warning);
  CHECK_FALSE(find(all, "login"));  // of this machine
}

TEST_CASE("the doctor says that a password is sent unencrypted to another host") {
  EtcdServer server{in_memory()};
  std::string host = server.host();
  host.replace(0, host.rfind(':'), "0.0.0.0");  // arrives here, and is no loopback address
  const auto all = open_etcd("etcd://job:secret@" + host, patient())->doctor().value();
  REQUIRE(find(all, "login"));
  CHECK(find(all, "login")->seen == "the password is sent unencrypted");
}

TEST_CASE("NOSPACE: nothing is granted, the reason is named, and the doctor sees the alarm") {
  EtcdServer server{in_memory(1, {"--quota-backend-bytes", "300000"})};
  const auto b = open_etcd(server.url(), patient());
  const std::string big(100000, 'x');
  auto client = server.client();
  for (int i = 0; i < 20; ++i)
    (void)client.txn("fill", etcd::transaction({}, {etcd::put(fmt::format("x{}", i), big)}, {}),
                     Clock::now() + 60s);
  const auto p = b->enqueue(request(key("k"))).value()->poll(0s);
  REQUIRE_FALSE(p);
  INFO(p.error().message);
  CHECK(p.error().code == Errc::unavailable);
  CHECK(p.error().message.find("disarm") != std::string::npos);
  const auto all = b->doctor().value();
  REQUIRE(find(all, "alarms"));
  CHECK(find(all, "alarms")->level == Finding::Level::bad);
  CHECK(find(all, "alarms")->seen == "NOSPACE");
}

TEST_CASE("compaction ends a watch, and not the wait") {
  EtcdServer server{in_memory()};
  const auto a = open_etcd(server.url(), patient()), b = open_etcd(server.url(), patient());
  const Lease lease = take(*a, request(key("k"), 600s));
  auto w = b->enqueue(request(key("k"), 600s)).value();
  CHECK_FALSE(granted(w->poll(0s)));
  for (int i = 0; i < 3; ++i) server.etcdctl({"put", "x", "y"});
  server.etcdctl({"compact", std::to_string(lease.token + 3)});
  CHECK_FALSE(granted(w->poll(300ms)));  // from a revision that is gone
  CHECK(a->release(lease).value() == Released::yes);
  granted_within(*w);
}

TEST_CASE("a wait may last longer than a request may") {
  EtcdServer server{in_memory()};
  const auto a = open_etcd(server.url(), patient()), b = open_etcd(server.url(), quick(1s));
  CHECK(one_of_five([&] {
    const Lease lease = take(*a, request(key("k"), 2s));
    auto w = b->enqueue(request(key("k"), 600s)).value();
    (void)answer_of(*w);
    const auto p = w->poll(20s);
    CHECK((!granted(p) || Clock::now() >= lease.deadline));
    release_or_fail(*b, granted_within(*w));
    return granted(p);
  }));
}

TEST_CASE("an operator removes the key or its lease: noticed within a moment") {
  EtcdServer server{in_memory()};
  const auto a = open_etcd(server.url(), patient());
  for (const bool by_lease : {false, true}) {
    CAPTURE(by_lease);
    auto w = a->enqueue(request(key("k"), 600s)).value();
    const Progress p = answer_of(*w, 60s);
    REQUIRE(granted(p));
    const Granted& g = std::get<Granted>(p);
    const etcd::KeyValue kv = below(server, "dlock/lock/k/").front();
    const auto alarm = [&] { return a->alarmed(g.lease); };
    CHECK_FALSE(becomes(alarm, 1500ms));  // from a second on the key is watched
    if (by_lease) server.etcdctl({"lease", "revoke", fmt::format("{:x}", kv.lease)});
    else server.etcdctl({"del", kv.key});
    CHECK(becomes(alarm));
    CHECK(lost(a->renew(g.lease, 600s)));
  }
}

// Written down in dlock-etcd(7): a single member that is emptied forgets the grant, and the first
// token after it may be that of before.
TEST_CASE("a single member that starts empty: the holder is told with its next renewal") {
  EtcdServer server{in_memory()};
  const auto a = open_etcd(server.url(), patient()), b = open_etcd(server.url(), patient());
  const Lease lease = take(*a, request(key("k"), 600s));
  server.kill();
  server.empty();
  server.start();
  server.wait_ready();
  CHECK(take(*b, request(key("k"), 600s)).token >= 2);
  CHECK(lost(renewed(*a, lease, 600s)));
  const auto all = answered([&] { return b->doctor(); });
  CHECK(find(all, "members")->level == Finding::Level::warning);
}

TEST_CASE("lock-delay: a release or a renewal behind the end of the lease leaves the key alone") {
  EtcdServer server{in_memory()};
  const auto a = open_etcd(server.url(), patient()), b = open_etcd(server.url(), patient());
  Request r = request(key("k"), 2s);
  r.lock_delay = 4s;
  const Lease lease = take(*a, r);
  auto w = b->enqueue(request(key("k"), 600s)).value();
  (void)answer_of(*w);
  while (Clock::now() < lease.deadline) ::usleep(10000);
  CHECK(lost(a->renew(lease, 2s)));
  CHECK(a->release(lease).value() == Released::was_not_held);
  // the deadline comes a little before the end
  CHECK(becomes([&] { return b->check(key("k"), lease.token).value() == Validity::stale; }));
  granted_within(*w);
  CHECK(Clock::now() >= later(lease.deadline, 4s));
}

TEST_CASE("lock-delay: a lease that is known by its handle lasts to its last second") {
  EtcdServer server{in_memory()};
  const auto a = open_etcd(server.url(), patient()), b = open_etcd(server.url(), patient());
  int attempts = 0;
  CHECK(one_of_five([&] {
    Request r = request(key(fmt::format("k{}", ++attempts)), 3s);
    r.lock_delay = 10s;
    const Lease lease = take(*a, r);
    const Lease handle{.key = lease.key, .owner = lease.owner, .token = lease.token};
    while (Clock::now() + 600ms < lease.deadline) ::usleep(10000);
    const auto valid = b->check(r.key, lease.token).value();
    const auto released = b->release(handle).value();
    return valid == Validity::valid && released == Released::yes;
  }));
}

TEST_CASE("values of other programs: no lease, no note of a start, no last run") {
  EtcdServer server{in_memory()};
  const auto b = open_etcd(server.url(), patient());
  const auto write = [&](const char* where, const char* value) {
    server.etcdctl({"put", std::string("dlock/") + where, value});
  };
  write("lock/k/x", "garbage");
  const auto view = b->inspect(key("k")).value();
  REQUIRE(view->holders.size() == 1);
  CHECK_FALSE(view->holders[0].vanished);
  CHECK_FALSE(view->holders[0].remaining);
  write("start/s", "junk");
  CHECK_FALSE(b->starts(key("s")));
  write("last/l", "zzz");
  CHECK(b->release(take(*b, request(key("l"))), RunEnd{}).value() == Released::yes);
  CHECK(b->inspect(key("l")).value()->last_run);
}

TEST_CASE("a permit whose claims others' renewals refuse ends its waits all the same") {
  EtcdServer server{in_memory()};
  Proxy proxy{port_of(server.host())};
  const auto holder = open_etcd(server.url(), patient()),
             far = open_etcd(through(proxy), quick(2s));
  const auto permit = [] {
    Request r = request(key("k"), 600s);
    r.mode = Mode::permit;
    r.limit = 3;
    return r;
  };
  const Lease held = take(*holder, permit());
  std::atomic<bool> over{false};
  std::thread renews([&] {
    while (!over) (void)holder->renew(held, 600s);
  });
  proxy.delay(Proxy::to_server, 50ms);  // each claim comes behind a renewal
  const auto w = far->enqueue(permit()).value();
  auto waits = std::async(std::launch::async, [&] { return answer_of(*w, 500ms); });
  const bool in_time = waits.wait_for(60s) == std::future_status::ready;
  Request impatient = permit();
  impatient.wait = false;
  auto tries =
      std::async(std::launch::async, [&] { return answer_of(*far->enqueue(impatient).value()); });
  const bool one_in_time = in_time && tries.wait_for(60s) == std::future_status::ready;
  over = true;
  renews.join();
  CHECK(in_time);
  CHECK(one_in_time);
  const Progress p = waits.get(), one = tries.get();
  // Granted: the renewals paused, on a busy machine.
  if (const auto* waiting = std::get_if<Waiting>(&p)) {
    CHECK(waiting->sent_at > Deadline{});
    granted_within(*w);
  }
  if (const auto* busy = std::get_if<Busy>(&one))
    CHECK(busy->why == "its permits change all the time");
}

TEST_CASE("two permits that come at once have two slots") {
  EtcdServer server{in_memory()};
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<Lease> leases;
  for (int i = 0; i < 3; ++i) backends.push_back(open_etcd(server.url(), patient()));
  Request r = request(key("k"), 600s);
  r.mode = Mode::permit;
  r.limit = 3;
  // both have their place and the same list before one of them claims
  Proxy proxy{port_of(server.host())};
  const auto slow = open_etcd(through(proxy), patient());
  const Lease first = take(*backends[0], r);
  proxy.hold("\"target\":\"MOD\"");
  r.owner = Owner::random();
  auto w = slow->enqueue(r).value();
  auto polled = std::async(std::launch::async, [&] { return w->poll(0s); });
  REQUIRE(proxy.holds_one());
  r.owner = Owner::random();
  const Lease second = take(*backends[1], r);
  CHECK(second.slot == 1);
  proxy.let_go();
  const auto p = polled.get();
  CHECK((granted(p) ? std::get<Granted>(*p).lease : granted_within(*w)).slot == 2);
  CHECK(backends[0]->inspect(key("k")).value()->holders.size() == 3);
}
