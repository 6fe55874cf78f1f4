// SPDX-License-Identifier: Apache-2.0
// Logins, and credentials that change while a lock is held or waited for.
#include <poll.h>
#include <zookeeper/zookeeper.h>
#include <initializer_list>
#include "faults.hpp"
#include "support/secret_file.hpp"
#include "zookeeper/queue/queue.hpp"
#include "zookeeper/session/session_backend.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// An administrator with these logins (digest) gives a node to them alone.
void take_over(const std::string& node, std::initializer_list<std::string> logins) {
  constexpr int none = 1;
  int outcome = none;
  zhandle_t* const z = zookeeper_init(
      shared_zookeeper().host().c_str(), [](zhandle_t*, int, int, const char*, void*) {}, 30000,
      nullptr, nullptr, 0);
  REQUIRE(z);
  for (const std::string& l : logins)
    zoo_add_auth(z, "digest", l.data(), static_cast<int>(l.size()), nullptr, nullptr);
  const auto answered = [](int rc, const void* to) {
    *static_cast<int*>(const_cast<void*>(to)) = rc;
  };
  bool asked = false;
  for (const Deadline end = Clock::now() + 60s; outcome == none && Clock::now() < end;) {
    if (!asked && zoo_state(z) == ZOO_CONNECTED_STATE) {  // the logins were sent before
      asked = true;
      REQUIRE(zoo_aset_acl(z, node.c_str(), -1, &ZOO_CREATOR_ALL_ACL, answered, &outcome) == ZOK);
    }
    pollfd fd{-1, 0, 0};
    int interest = 0;
    timeval tv{};
    zookeeper_interest(z, &fd.fd, &interest, &tv);
    if (interest & ZOOKEEPER_READ) fd.events |= POLLIN;
    if (interest & ZOOKEEPER_WRITE) fd.events |= POLLOUT;
    ::poll(&fd, 1, 100);
    const auto is = [&](short events) { return (fd.revents & (events | POLLHUP | POLLERR)) != 0; };
    zookeeper_process(z, (is(POLLIN) ? ZOOKEEPER_READ : 0) | (is(POLLOUT) ? ZOOKEEPER_WRITE : 0));
  }
  zookeeper_close(z);
  REQUIRE(outcome == ZOK);
}

}  // namespace

TEST_CASE("with a login, nodes are closed to others") {
  const SecretFile file{"digest:me:secret"};
  const std::string url = place(), login = "?auth_file=" + file.path();
  const auto mine = open_zookeeper(url + login), theirs = open_zookeeper(url);
  const Lease l = acquire_or_fail(*mine, ask(60s));
  const auto p = (*theirs->enqueue(ask(60s)))->poll(1s);
  REQUIRE_FALSE(p);
  CHECK(p.error().code == Errc::denied);
  CHECK(p.error().message.find("secret") == std::string::npos);
  const SecretFile wrong{"digest:me:other"};
  const auto refused = open_zookeeper(url + "?auth_file=" + wrong.path())->check(l.key, l.token);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("is the password in " + wrong.path() + " right?") !=
        std::string::npos);
  const SecretFile incomplete{"me:secret"};
  const auto unknown =
      open_zookeeper(url + "?auth_file=" + incomplete.path())->check(l.key, l.token);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message.find("write digest:user:password") != std::string::npos);
  CHECK(theirs->force_release(key(), std::nullopt).error().code == Errc::denied);
  const auto other = open_zookeeper(url + login);
  CHECK(waits(**other->enqueue(ask(60s))));
  release_or_fail(*mine, l);
}

TEST_CASE("a credential that the servers refuse is read again from its file") {
  const std::string url = place();
  const SecretFile file{"digest:me:secret"};
  const auto mine = open_zookeeper(url + "?auth_file=" + file.path());
  const Lease l = acquire_or_fail(*mine, ask(60s));
  file.write("digest:me:another");
  const auto other = open_zookeeper(url + "?auth_file=" + file.path());
  const auto refused = other->check(l.key, l.token);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::denied);
  file.write("digest:me:secret");
  CHECK(retryable(other->check(l.key, l.token).error().code));  // reads it
  CHECK(other->check(l.key, l.token).value() == Validity::valid);
  release_or_fail(*mine, l);
}

TEST_CASE("a waiter that is denied reads its credential again, and goes on waiting") {
  for (const char* recipe : all_recipes) {
    CAPTURE(recipe);
    const bool queues = std::string_view{recipe} != "ephemeral";
    const std::string chroot = fresh_chroot(), open_to_all = chroot + (queues ? "/p/k" : "/p"),
                      url = shared_zookeeper().url() + chroot + "?prefix=p/";
    RawZookeeper raw{shared_zookeeper().url()};
    raw.make_all(open_to_all);
    const SecretFile file{"digest:me:old"}, changed{"digest:me:new"};
    const auto holder = open_zookeeper(url + "&auth_file=" + changed.path(), {}, recipe),
               waiter = open_zookeeper(url + "&auth_file=" + file.path(), {}, recipe);
    Lease held{key(), Owner{}};
    std::string between;  // what it waits for at first
    if (queues) {
      held = acquire_or_fail(*holder, ask(60s));
      const auto dialect = zookeeper::dialect_of(recipe).value();
      between = raw.make(
          open_to_all + '/' + zookeeper::node_prefix(dialect, Owner::random(), Mode::exclusive), "",
          true, true);
    } else {
      between = raw.make(open_to_all + "/k");
    }
    const auto w = waiter->enqueue(ask(60s)).value();
    CHECK(waits(*w));
    raw.remove(between);
    if (!queues) held = acquire_or_fail(*holder, ask(60s));
    if (std::string_view{recipe} == "kazoo") {  // as long as the file says the same
      const auto denied = w->poll(10s);
      REQUIRE_FALSE(denied);
      CHECK(denied.error().code == Errc::denied);
    }
    file.write("digest:me:new");
    const auto again = w->poll(10s);
    REQUIRE_FALSE(again);
    CHECK(retryable(again.error().code));
    CHECK(waits(*w));
    release_or_fail(*holder, held);
    release_or_fail(*waiter, take(*w));
  }
}

TEST_CASE(
    "a session whose login the servers refuse is followed by another, and its waiter goes on") {
  const std::string chroot = fresh_chroot(), url = shared_zookeeper().url() + chroot;
  RawZookeeper raw{shared_zookeeper().url()};
  raw.make_all(chroot + "/dlock/k");
  raw.make_all(chroot + "/dlock/other");
  raw.make(chroot + "/dlock/k/_c_x-__WRIT__", "", true, true);  // holds it
  const SecretFile file{"digest:me:old"}, foreign{"digest:me:foreign"};
  const auto closed = open_zookeeper(url + "?auth_file=" + foreign.path()),
             backend = open_zookeeper(url + "?auth_file=" + file.path());
  Request other = ask(60s);
  other.key = Key::parse("other").value();
  const Lease held = acquire_or_fail(*closed, other);
  const auto w = backend->enqueue(ask(60s)).value();
  CHECK(waits(*w));
  file.write("nosuch:me");  // a scheme that no server knows: it ends the connection
  CHECK_FALSE(backend->check(other.key, held.token));  // denied: it reads the file
  Result<Progress> p = w->poll(20ms);
  const auto refused = [&] {
    return !p && p.error().message.find("does not accept the credential") != std::string::npos;
  };
  for (const Deadline end = Clock::now() + 30s; !refused() && Clock::now() < end;)
    p = w->poll(20ms);
  REQUIRE(refused());
  CHECK_FALSE(w->poll(20ms));  // its place names the session still
  file.write("digest:me:old");
  p = w->poll(20ms);
  for (const Deadline end = Clock::now() + 30s; !p && Clock::now() < end; p = w->poll(20ms)) {
    INFO(p.error().message);
    REQUIRE(retryable(p.error().code));
  }
  REQUIRE(p);
  CHECK(std::holds_alternative<Waiting>(*p));
  CHECK(w->cancel());
}

// The servers send no event to a login that the node's ACL excludes by then.
TEST_CASE("a waiter is granted the key although its login may not read the nodes any more") {
  struct Case {
    const char* recipe;
    unsigned limit;  // 0: exclusive
  };
  for (const auto& [recipe, limit] :
       {Case{"sequential", 0}, Case{"sequential", 1}, Case{"kazoo", 0}, Case{"ephemeral", 0}}) {
    CAPTURE(recipe, limit);
    const bool queues = std::string_view{recipe} != "ephemeral";
    const std::string chroot = fresh_chroot(),
                      url = shared_zookeeper().url() + chroot + "?prefix=p/";
    const SecretFile file{"digest:me:old"};
    const std::string login = "&auth_file=" + file.path();
    const auto holder = open_zookeeper(url + login, patient(), recipe),
               waiter = open_zookeeper(url + login, patient(), recipe);
    Request r = ask(12s);
    if (limit != 0) r.mode = Mode::permit, r.limit = limit;
    const Lease held = acquire_or_fail(*holder, r);
    r.owner = Owner::random();
    const auto w = waiter->enqueue(r).value();
    CHECK(waits(*w));
    RawZookeeper raw{shared_zookeeper().url() + "?auth_file=" + file.path()};
    std::vector<std::string> nodes{chroot + "/p", chroot + "/p/k"};
    if (queues)
      for (const std::string& name : raw.children(chroot + "/p/k"))
        nodes.push_back(chroot + "/p/k/" + name);
    for (const std::string& node : nodes) {
      take_over(node, {"me:old", "me:new"});
      take_over(node, {"me:new"});
    }
    file.write("digest:me:new");
    CHECK(becomes([&] { return holder->release(held).has_value(); }));
    release_or_fail(*waiter, granted_within(*w, 30s));
  }
}
