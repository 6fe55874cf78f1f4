// SPDX-License-Identifier: Apache-2.0
#include "run/several.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include "util/fd.hpp"

using namespace dlock;
using namespace std::chrono_literals;

namespace {

constexpr Traits scripted_traits{.family = "scripted",
                                 .recipe = "lease",
                                 .liveness = Liveness::lease,
                                 .fifo = true,
                                 .shared = true,
                                 .permits = true,
                                 .detached = true,
                                 .lock_delay = true,
                                 .wakes = true,
                                 .native = true,
                                 .weakness = ""};

// Outlives the backend: what it was asked, what it is to answer.
struct Script {
  std::string asked;                                             // "+a" an acquisition, "-a" a release, "~a" a renewal
  std::map<std::string, std::deque<Result<Released>>> releases;  // then `yes`
  std::map<std::string, Fd> alarms;
  std::string busy;  // this key is
};

class Scripted final : public Backend {
 public:
  explicit Scripted(Script& script) : script_(script) {}
  const Traits& traits() const noexcept override { return scripted_traits; }
  std::string where() const override { return "script"; }
  Result<std::unique_ptr<dlock::Waiter>> enqueue(const Request& r) override;
  Result<Renewal> renew(const Lease& l, Duration) override {
    script_.asked += "~" + l.key.text();
    return Renewal{Kept{l}};
  }
  Result<Renewal> detach(const Lease& l, Duration d) override { return renew(l, d); }
  Result<Released> release(const Lease& l) override {
    script_.asked += "-" + l.key.text();
    auto& answers = script_.releases[l.key.text()];
    if (answers.empty()) return Released::yes;
    auto answer = answers.front();
    answers.pop_front();
    return answer;
  }
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override { return Released::was_not_held; }
  Result<Validity> check(const Key&, FencingToken) override { return Validity::stale; }
  Result<Validity> check(const Key&, const Owner&) override { return Validity::stale; }
  Result<std::optional<KeyView>> inspect(const Key&) override { return std::optional<KeyView>{}; }
  Result<std::vector<KeyView>> list() override { return std::vector<KeyView>{}; }

 private:
  Script& script_;
};

class ScriptedWaiter final : public dlock::Waiter {
 public:
  ScriptedWaiter(Script& script, const Request& r) : script_(script), request_(r) {}
  Result<Progress> poll(Duration) override {
    const std::string& key = request_.key.text();
    if (key == script_.busy) return Progress{Busy{}};
    script_.asked += "+" + key;
    const auto alarm = script_.alarms.find(key);
    return Progress{Granted{Lease{.key = request_.key, .owner = request_.owner, .token = 7, .deadline = later(Clock::now(), 1h)},
                            -1, alarm == script_.alarms.end() ? -1 : alarm->second.get()}};
  }
  Result<void> cancel() override { return {}; }

 private:
  Script& script_;
  const Request request_;
};

Result<std::unique_ptr<dlock::Waiter>> Scripted::enqueue(const Request& r) {
  return std::make_unique<ScriptedWaiter>(script_, r);
}

Key key(const char* name) { return Key::parse(name).value(); }

struct Both {
  Script script;
  std::unique_ptr<Backend> all = run::several(std::make_unique<Scripted>(script), {key("b"), key("a")});
  Request request{.key = key("b"), .owner = Owner::random(), .ttl = 1h, .identity = {}};
  std::unique_ptr<dlock::Waiter> place = all->enqueue(request).value();

  Granted take() {
    auto answer = place->poll(0us);
    REQUIRE(answer);
    REQUIRE(std::holds_alternative<Granted>(*answer));
    return std::get<Granted>(*answer);
  }
};

auto unknown() { return fail(Errc::timed_out, "no answer"); }
auto unreachable() { return fail(Errc::unavailable, "not sent"); }

// No more than `n` descriptors can be opened.
class Descriptors {
 public:
  explicit Descriptors(unsigned n) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const Fd lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(lowest.get()) + n;
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~Descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

 private:
  rlimit before_{};
};

bool rings(int fd) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

}  // namespace

TEST_CASE("several: taken in byte order, the first one given stands for all, released backwards") {
  Both keys;
  const Granted granted = keys.take();
  CHECK(granted.lease.key == key("b"));
  REQUIRE(granted.more.size() == 1);
  CHECK(granted.more[0].key == key("a"));
  CHECK(keys.all->release(granted.lease) == Released::yes);
  CHECK(keys.script.asked == "+a+b-b-a");
}

TEST_CASE("several: a release that is repeated asks only for what is unknown, and its second answer is no accusation") {
  Both keys;
  const Lease lease = keys.take().lease;
  keys.script.asked.clear();
  keys.script.releases["b"] = {unknown(), Released::was_not_held};  // it was carried out, and the answer was lost
  CHECK_FALSE(keys.all->release(lease));
  CHECK(keys.all->release(lease) == Released::yes);
  CHECK(keys.script.asked == "-b-a-b");
}

TEST_CASE("several: what was not held stays so over a repetition") {
  Both keys;
  const Lease lease = keys.take().lease;
  keys.script.releases["a"] = {Released::was_not_held};
  keys.script.releases["b"] = {unknown(), unknown(), Released::yes};
  CHECK_FALSE(keys.all->release(lease));
  CHECK_FALSE(keys.all->release(lease));
  CHECK(keys.all->release(lease) == Released::was_not_held);
}

TEST_CASE("several: a release that was not sent explains nothing") {
  Both keys;
  const Lease lease = keys.take().lease;
  keys.script.releases["b"] = {unreachable(), Released::was_not_held};
  CHECK_FALSE(keys.all->release(lease));
  CHECK(keys.all->release(lease) == Released::was_not_held);
}

TEST_CASE("several: after a release of unknown outcome every key is taken anew") {
  Both keys;
  const Lease lease = keys.take().lease;
  keys.script.releases["b"] = {unknown()};
  CHECK_FALSE(keys.all->release(lease));
  keys.script.asked.clear();
  keys.place = keys.all->enqueue(keys.request).value();
  (void)keys.take();
  CHECK(keys.script.asked == "+a+b");
}

TEST_CASE("several: one that is busy gives back those before it") {
  Both keys;
  keys.script.busy = "b";
  const auto answer = keys.place->poll(0us);
  REQUIRE(answer);
  CHECK(std::holds_alternative<Busy>(*answer));
  CHECK(keys.script.asked == "+a-a");
}

TEST_CASE("several: the alarm of each key is heard") {
  for (const char* which : {"a", "b"}) {
    Both keys;
    for (const char* name : {"a", "b"}) keys.script.alarms[name].reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const int alarm = keys.take().alarm_fd;
    REQUIRE(alarm >= 0);
    CHECK_FALSE(rings(alarm));
    ::eventfd_write(keys.script.alarms[which].get(), 1);
    CHECK(rings(alarm));
  }
}

#ifndef __SANITIZE_ADDRESS__  // its companion UBSan looks at memory through descriptors
TEST_CASE("several: a lock whose alarm nobody would hear is not granted, and all are given back") {
  for (const unsigned descriptors : {0U, 1U, 2U}) {  // no copy of an alarm, none of the second, nothing that watches both
    Both keys;
    for (const char* name : {"a", "b"}) keys.script.alarms[name].reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    Result<Progress> answer = unknown();
    {
      const Descriptors few(descriptors);
      answer = keys.place->poll(0us);
    }
    INFO(descriptors << " descriptors: " << keys.script.asked);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == Errc::unavailable);
    CHECK(keys.script.asked == (descriptors == 0 ? "+a-a" : "+a+b-b-a"));
    keys.script.asked.clear();
    (void)keys.take();  // when there are some again
    CHECK(keys.script.asked == "+a+b");
  }
}
#endif
