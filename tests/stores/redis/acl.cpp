// SPDX-License-Identifier: Apache-2.0
// The rights listed in backends/redis/README.md are enough for everything, and each of them is
// needed.
#include <fstream>
#include <sstream>
#include "faults.hpp"
#include "redis/fair/fair_backend.hpp"

using namespace dlock;
using namespace dlock::test;

namespace {

// The words of the line in the README, so that test and README cannot differ.
std::vector<std::string> documented() {
  std::ifstream readme{BACKENDS_REDIS_README};
  for (std::string line; std::getline(readme, line);)
    if (line.starts_with("ACL SETUSER dlock ")) {
      std::istringstream in{line};
      std::vector<std::string> words;
      for (std::string word; in >> word;) words.push_back(word);
      return words;
    }
  FAIL("no ACL line in the README");
  return {};
}

void set_user(RedisServer& server, std::vector<std::string> words) {
  for (auto& w : words)
    if (w.starts_with('>')) w = ">secret-canary";
  const Reply r = server.command(std::vector<std::string_view>{words.begin(), words.end()});
  INFO(r.text);
  REQUIRE(r.text == "OK");
}

// Everything that dlock does. Empty: it worked.
std::string use_all(RedisServer& server) {
  try {
    Settings settings = quick(10s);
    settings.password = "secret-canary";
    const auto url = fmt::format("redis://dlock@127.0.0.1:{}?restart_grace=0", server.port());
    auto backend = open_redis(url, settings);
    const Key k = key("acl");
    Lease lease = acquire_or_fail(*backend, request(k));
    Request shared = request(k, 60s);
    shared.mode = Mode::shared;
    shared.lock_delay = 1s;
    auto waiter = *backend->enqueue(shared);
    const auto must = [](const auto& r) {
      if (!r) throw std::runtime_error(r.error().message);
      return *r;
    };
    const auto in_queue = [&] {
      must(waiter->poll(20ms));
      const auto seen = must(backend->inspect(k));
      return seen && seen->waiters.size() == 1;
    };
    if (!becomes(in_queue, 30s)) throw std::runtime_error("nothing to see");
    must(backend->renew(lease, 10s));
    must(backend->check(k, lease.token));
    const RunStart start{5, wall_micros() + 3'600'000'000};
    if (must(backend->note_start(lease, {{}, start})) != UpdateResult::yes ||
        must(backend->starts(k)).last != start)
      throw std::runtime_error("starts");
    must(backend->note_start(lease, {start, {}}));
    if (must(list(*backend)).size() != 1) throw std::runtime_error("list");
    server.command({"CONFIG", "RESETSTAT"});
    if (must(backend->release(lease)) != Released::yes) throw std::runtime_error("release");
    // as the server counts: on a slow machine the waiter may look before it sleeps
    if (!info_field(server, "commandstats", "cmdstat_rpush").starts_with("calls=1,"))
      throw std::runtime_error("not woken");
    const auto granted = [&] { return std::holds_alternative<Granted>(must(waiter->poll(1s))); };
    if (!becomes(granted, 30s)) throw std::runtime_error("not granted");
    if (const auto left = waiter->cancel(); !left) throw std::runtime_error(left.error().message);
    Request permit = request(k);
    permit.mode = Mode::permit;
    permit.limit = 2;
    lease = acquire_or_fail(*backend, permit);
    must(backend->force_release(k, lease.token));
    settings.op_timeout = 300ms;
    const auto copied = (*open_redis(url + "&replicas=1", settings)->enqueue(request(k)))->poll(0s);
    if (copied || copied.error().message.find("0 of 1") == std::string::npos)
      throw std::runtime_error("WAIT: " + (copied ? "?" : copied.error().message));
    for (const Finding& f : must(open_redis(url + "&replicas=0", settings)->doctor()))
      if (f.what == "rights" && f.level != Finding::Level::good)
        throw std::runtime_error("doctor: " + f.seen);
    server.command({"FLUSHDB"});
    return "";
  } catch (const std::exception& e) {
    server.command({"FLUSHDB"});
    return e.what();
  }
}

// What doctor reports as missing without `word`.
std::string told_missing(RedisServer& server, const std::string& word) {
  Settings settings = quick(1s);
  settings.password = "secret-canary";
  const auto found =
      open_redis(fmt::format("redis://dlock@127.0.0.1:{}?replicas=1", server.port()), settings)
          ->doctor();
  if (!found) return found.error().message;
  for (const Finding& f : *found)
    if (f.what == "rights") return f.seen.starts_with("missing: ") ? f.seen.substr(9) : f.seen;
    else if (f.what == "clock" && f.level == Finding::Level::unknown && word == "+time")
      return word;
  return "nothing";
}

}  // namespace

TEST_CASE("the documented rights are enough, and each of them is needed") {
  RedisServer server;
  const auto words = documented();
  set_user(server, words);
  CHECK(use_all(server) == "");
  for (const std::string& word : words) {
    if (!word.starts_with('+') && !word.starts_with('~')) continue;
    std::vector<std::string> fewer;
    for (const auto& w : words)
      if (w != word) fewer.push_back(w);
    set_user(server, fewer);
    server.command({"SCRIPT", "FLUSH"});
    CAPTURE(word);
    if (word.starts_with('+') && word != "+info" && word != "+eval")
      CHECK(told_missing(server, word) == word);
    const std::string why = use_all(server);
    CHECK(why != "");
    CHECK(why.find("secret-canary") == std::string::npos);
  }
}

TEST_CASE(
    "wrong password, no password, rights revoked while holding: refused at once, the secret never "
    "shown") {
  RedisServer server;
  set_user(server, documented());
  const auto url = [&](const char* user) {
    return fmt::format("redis://{}127.0.0.1:{}?restart_grace=0", user, server.port());
  };
  Settings settings = quick();
  const auto refused = [&](const std::string& at) {
    auto backend = open_redis(at, settings);
    const auto p = (*backend->enqueue(request(key("k"))))->poll(0s);
    REQUIRE_FALSE(p);
    CHECK(p.error().code == Errc::denied);
    CHECK(p.error().message.find("canary") == std::string::npos);
  };
  settings.password = "wrong-canary";
  refused(url("dlock@"));
  refused(url("nobody@"));
  refused(url(""));  // the default user has none
  settings.password = "";
  server.command({"CONFIG", "SET", "requirepass", "default-canary"});
  refused(url(""));

  settings.password = "secret-canary";
  auto backend = open_redis(url("dlock@"), settings);
  const Lease lease = acquire_or_fail(*backend, request(key("k")));
  // (The unix socket of the test's own connection was there before the password.)
  server.command({"ACL", "SETUSER", "dlock", "-evalsha"});
  const auto before = backend->counters().requests;
  const auto renewal = backend->renew(lease, 10s);
  REQUIRE_FALSE(renewal);
  CHECK(renewal.error().code == Errc::denied);
  CHECK(backend->counters().requests - before == 1);  // no storm of retries
}
