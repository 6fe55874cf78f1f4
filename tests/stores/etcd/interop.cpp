// SPDX-License-Identifier: Apache-2.0
// Recipe concurrency and etcdctl lock, which is Go's concurrency.Mutex, exclude each other.
#include <csignal>
#include "faults.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

pid_t etcdctl_lock(const EtcdServer& server, const std::string& name, const std::string& mark) {
  return start_server({"env", "ETCDCTL_API=3", "etcdctl", "--endpoints=http://" + server.host(),
                       "lock", name, "--", "sh", "-c", "touch " + mark + "; exec sleep 60"});
}
bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
bool appears(const std::string& path, Duration bound = 60s) {
  return becomes([&] { return exists(path); }, bound);
}
// etcdctl releases at the end of its command.
void end(pid_t pid) { ::kill(-pid, SIGTERM); }

}  // namespace

TEST_CASE("etcdctl, dlock, etcdctl: in order, and one at a time") {
  if (!installed("etcdctl")) return;
  EtcdServer server{in_memory()};
  TestDirectory dir;
  for (const std::string name : {"k", "/locks/of mine/k"}) {
    CAPTURE(name);
    const std::string first = dir.path() + "/first", second = dir.path() + "/second";
    ::unlink(first.c_str());
    ::unlink(second.c_str());
    const auto b = open_etcd(server.url(), patient(), "concurrency");
    const pid_t one = etcdctl_lock(server, name, first);
    REQUIRE(appears(first));
    auto w = b->enqueue(request(key(name), 600s)).value();
    CHECK_FALSE(granted(w->poll(0s)));
    const pid_t two = etcdctl_lock(server, name, second);
    CHECK_FALSE(granted(w->poll(500ms)));
    const auto seen = b->inspect(key(name)).value();
    REQUIRE(seen);
    CHECK(seen->holders.size() == 1);
    end(one);
    const Lease lease = granted_within(*w);
    CHECK_FALSE(appears(second, 1s));
    CHECK(b->release(lease).value() == Released::yes);
    CHECK(appears(second));
    end(two);
  }
}

TEST_CASE("the names a and a/b are two locks of dlock's, on both recipes") {
  EtcdServer server{in_memory()};
  for (const std::string recipe : {"queue", "concurrency"}) {
    CAPTURE(recipe);
    const auto a = open_etcd(server.url(), patient(), recipe),
               b = open_etcd(server.url(), patient(), recipe);
    const Lease below = take(*a, request(key("a/b"), 600s)),
                above = take(*b, request(key("a"), 600s));
    auto w = a->enqueue(request(key("a"), 600s)).value();
    CHECK_FALSE(granted(w->poll(0s)));
    const Lease again = take(*b, request(key("a/c"), 600s));
    CHECK_FALSE(granted(w->poll(100ms)));
    CHECK(b->release(above).value() == Released::yes);
    granted_within(*w);
    CHECK(a->release(below).value() == Released::yes);
    CHECK(b->release(again).value() == Released::yes);
    CHECK(w->cancel().has_value());
  }
}
