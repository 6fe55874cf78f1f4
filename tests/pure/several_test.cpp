// SPDX-License-Identifier: Apache-2.0
#include "store/several.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <set>
#include "run/timing.hpp"
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

// Outlives the backend: the requests it got, and the answers it is to give.
struct Script {
  // "+a" an acquisition, "-a" a release, "~a" a renewal
  std::string asked;
  std::map<std::string, std::deque<Result<Released>>> releases;  // when used up: `yes`
  std::map<std::string, Fd> alarms;
  std::string busy;                 // the key that is busy
  std::string waits;                // the key that is not free
  std::set<std::string> lost;       // keys whose renewal answers lost
  std::string redrawn;              // the key for which the recipe draws another owner
  std::set<Owner> spent;            // owners under which a release was asked for
  bool an_owner_came_back = false;  // and yet something was acquired under one of them
};

class Scripted final : public Backend {
 public:
  explicit Scripted(Script& script) : script_(script) {}
  const Traits& traits() const noexcept override { return scripted_traits; }
  std::string where() const override { return "script"; }
  Result<std::unique_ptr<dlock::Waiter>> enqueue(const Request& r) override;
  Result<Renewal> renew(const Lease& l, Duration) override {
    script_.asked += "~" + l.key.text();
    if (script_.lost.count(l.key.text()) > 0) return Renewal{Lost{"gone"}};
    return Renewal{Kept{l}};
  }
  Result<Renewal> detach(const Lease& l, Duration d, std::optional<RunEnd>) override {
    return renew(l, d);
  }
  Result<Released> release(const Lease& l, std::optional<RunEnd>) override {
    script_.asked += "-" + l.key.text();
    script_.spent.insert(l.owner);
    auto& answers = script_.releases[l.key.text()];
    if (answers.empty()) return Released::yes;
    auto answer = answers.front();
    answers.pop_front();
    return answer;
  }
  Result<Released> force_release(const Key&, std::optional<FencingToken>) override {
    return Released::was_not_held;
  }
  Result<Validity> check(const Key&, const GrantId&) override { return Validity::stale; }
  Result<std::optional<KeyView>> inspect(const Key&) override { return std::optional<KeyView>{}; }
  Result<std::vector<std::string>> names() override { return std::vector<std::string>{}; }

 private:
  Script& script_;
};

class ScriptedWaiter final : public dlock::Waiter {
 public:
  ScriptedWaiter(Script& script, const Request& r) : script_(script), request_(r) {}
  Result<Progress> poll(Duration) override {
    const std::string& key = request_.key.text();
    script_.an_owner_came_back |= script_.spent.count(request_.owner) > 0;
    if (key == script_.busy) return Progress{Busy{}};
    if (key == script_.waits) return Progress{Waiting{}};
    script_.asked += "+" + key;
    const Owner owner = key == script_.redrawn ? Owner::random() : request_.owner;
    const auto alarm = script_.alarms.find(key);
    return Progress{Granted{
        Lease{.key = request_.key, .owner = owner, .token = 7, .deadline = later(Clock::now(), 1h)},
        -1, alarm == script_.alarms.end() ? -1 : alarm->second.get()}};
  }
  Result<void> cancel() override {
    script_.spent.insert(request_.owner);
    return {};
  }

 private:
  Script& script_;
  const Request request_;
};

Result<std::unique_ptr<dlock::Waiter>> Scripted::enqueue(const Request& r) {
  return std::make_unique<ScriptedWaiter>(script_, r);
}

Key key(const char* name) { return Key::parse(name).value(); }

struct Both {
  Duration renew_every = 15min;
  Script script{};
  std::unique_ptr<Backend> all = several(std::make_unique<Scripted>(script), {key("b"), key("a")},
                                         run::renewals({.proven = 1h, .renew_every = renew_every}));
  Request request{.key = key("b"), .owner = Owner::random(), .ttl = 1h, .identity = {}};
  std::unique_ptr<dlock::Waiter> place = all->enqueue(request).value();

  void begin_anew() {
    script.asked.clear();
    request.owner = Owner::random();
    place = all->enqueue(request).value();
  }
  void add_alarms() {
    for (const char* name : {"a", "b"})
      script.alarms[name].reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  }
  Granted take() {
    auto answer = place->poll(0us);
    REQUIRE(answer);
    REQUIRE(std::holds_alternative<Granted>(*answer));
    return std::get<Granted>(*answer);
  }
};

template <class Answer>
bool answers(Both& keys) {
  const auto answer = keys.place->poll(0us);
  return answer && std::holds_alternative<Answer>(*answer);
}

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

TEST_CASE("several: taken in byte order, released in reverse; the first grant represents all") {
  Both keys;
  const Granted granted = keys.take();
  CHECK(granted.lease.key == key("b"));
  REQUIRE(granted.more_leases.size() == 1);
  CHECK(granted.more_leases[0].key == key("a"));
  CHECK(keys.all->release(granted.lease) == Released::yes);
  CHECK(keys.script.asked == "+a+b-b-a");
}

TEST_CASE(
    "several: a repeated release asks only for unknown keys, and says what the first ones were") {
  const Result<Released> lost = unknown(), unsent = unreachable();
  struct {
    std::deque<Result<Released>> of_b, of_a;  // the answers, until all are known
    Released whole;
    const char* asked;
  } const rows[] = {
      // it was carried out, and the reply was lost: was_not_held is as good as released
      {{lost, Released::was_not_held}, {}, Released::yes, "-b-a-b"},
      // a key that was not held stays so over a repetition
      {{lost, lost, Released::yes}, {Released::was_not_held}, Released::was_not_held, "-b-a-b-b"},
      // a release that was not sent carried nothing out
      {{unsent, Released::was_not_held}, {}, Released::was_not_held, "-b-a-b"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.asked);
    Both keys;
    const Lease lease = keys.take().lease;
    keys.script.asked.clear();
    keys.script.releases = {{"a", row.of_a}, {"b", row.of_b}};
    for (std::size_t i = 1; i < row.of_b.size(); ++i) CHECK_FALSE(keys.all->release(lease));
    CHECK(keys.all->release(lease) == row.whole);
    CHECK(keys.script.asked == row.asked);
  }
}

TEST_CASE(
    "several: when one is lost the others are released, and the lost one is not asked about") {
  Both keys;
  const Lease lease = keys.take().lease;
  keys.script.lost = {"a"};
  const auto renewed = keys.all->renew(lease, 1h);
  REQUIRE(renewed);
  CHECK(std::holds_alternative<Lost>(*renewed));
  keys.script.asked.clear();
  CHECK(keys.all->release(lease) == Released::yes);
  CHECK(keys.script.asked == "-b");
}

TEST_CASE("several: a release of unknown outcome is repeated first, then every key is taken anew") {
  Both keys;
  const Lease lease = keys.take().lease;
  keys.script.releases["b"] = {unknown(), unknown()};
  CHECK_FALSE(keys.all->release(lease));
  keys.begin_anew();
  CHECK_FALSE(keys.place->poll(0us));  // still unknown: nothing is taken before its lease has ended
  CHECK(keys.script.asked == "-b");
  const Granted again = keys.take();
  CHECK(keys.script.asked == "-b-b+a+b");
  CHECK(again.lease.owner == keys.request.owner);
  CHECK_FALSE(keys.script.an_owner_came_back);
}

TEST_CASE("several: keys that were not released yet are released before they are taken anew") {
  Both keys;
  (void)keys.take();  // one of them is lost, so the others were not released
  keys.begin_anew();
  (void)keys.take();
  CHECK(keys.script.asked == "-b-a+a+b");
  CHECK_FALSE(keys.script.an_owner_came_back);
}

// The release of `a` may arrive late: it must not end the grant that follows.
TEST_CASE("several: one is lost while another is waited for: all are taken by another owner") {
  Both keys{.renew_every = 0us};  // renewed at each poll
  keys.place = keys.all->enqueue(keys.request).value();
  keys.script.waits = "b";
  keys.script.lost = {"a"};
  keys.script.releases["a"] = {unknown(), Released::was_not_held};
  CHECK(answers<Waiting>(keys));
  CHECK(answers<Waiting>(keys));
  keys.script.waits.clear();
  keys.script.lost.clear();
  const Granted granted = keys.take();
  CHECK(keys.script.asked == "+a~a-a-a+a~a-a+a~a+b~a~b");
  CHECK_FALSE(keys.script.an_owner_came_back);
  REQUIRE(granted.more_leases.size() == 1);
  CHECK(granted.lease.owner != keys.request.owner);
  CHECK(granted.lease.owner == granted.more_leases[0].owner);
}

TEST_CASE("several: each lease has the owner of its own key") {
  Both keys;
  keys.script.redrawn = "a";
  const Granted granted = keys.take();
  REQUIRE(granted.more_leases.size() == 1);
  CHECK(granted.lease.owner == keys.request.owner);
  CHECK(granted.more_leases[0].owner != keys.request.owner);
  CHECK(keys.all->release(granted.lease) == Released::yes);
  CHECK(keys.script.spent == std::set<Owner>{granted.lease.owner, granted.more_leases[0].owner});
}

TEST_CASE("several: when one is busy, the keys before it are released") {
  Both keys;
  keys.script.busy = "b";
  CHECK(answers<Busy>(keys));
  CHECK(keys.script.asked == "+a-a");
}

TEST_CASE("several: busy and waiting name the key in the way") {
  for (const char* name : {"a", "b"}) {
    Both keys;
    keys.script.busy = name;
    const auto busy = keys.place->poll(0us);
    REQUIRE(busy);
    CHECK(std::get<Busy>(*busy).key == name);
    keys.script.busy.clear();
    keys.script.waits = name;
    keys.begin_anew();
    const auto waiting = keys.place->poll(0us);
    REQUIRE(waiting);
    CHECK(std::get<Waiting>(*waiting).key == name);
  }
}

TEST_CASE("several: the alarm of each key is noticed") {
  for (const char* which : {"a", "b"}) {
    Both keys;
    keys.add_alarms();
    const int alarm = keys.take().alarm_fd;
    REQUIRE(alarm >= 0);
    CHECK_FALSE(rings(alarm));
    ::eventfd_write(keys.script.alarms[which].get(), 1);
    CHECK(rings(alarm));
  }
}

#ifndef __SANITIZE_ADDRESS__  // UBSan beside it reads memory through descriptors
TEST_CASE("several: a lock whose alarm cannot be watched is not granted, and all are released") {
  // no copy of an alarm, none of the second, no epoll for both
  for (const unsigned descriptors : {0U, 1U, 2U}) {
    Both keys;
    keys.add_alarms();
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
    (void)keys.take();  // when descriptors are free again
    CHECK(keys.script.asked == "+a+b");
    CHECK_FALSE(keys.script.an_owner_came_back);
  }
}
#endif
