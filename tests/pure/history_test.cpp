// SPDX-License-Identifier: Apache-2.0
// Hand-made histories: for each invariant one that keeps it and one that breaks it.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <chrono>
#include "history/report.hpp"

using namespace dlock::history;

namespace {

// Times are in ms.
class Story {
 public:
  Story& add(std::int64_t t, std::string_view ev, std::string_view f, std::string_view owner,
             std::string_view more = {}) {
    text_ += fmt::format(R"({{"t":{},"pid":{},"ev":"{}","f":"{}","key":"k","owner":"{}"{}{}}})",
                         t * 1'000'000, owner.empty() ? 0 : owner[0], ev, f, owner,
                         more.empty() ? "" : ",", more) +
             "\n";
    return *this;
  }
  Story& asks(std::int64_t t, std::string_view owner, std::string_view more = {}) {
    return add(t, "invoke", "acquire", owner, more);
  }
  Story& queued(std::int64_t t, std::string_view owner) {
    return add(t, "queued", "acquire", owner);
  }
  Story& granted(std::int64_t t, std::string_view owner, int token, std::int64_t deadline) {
    return add(t, "ok", "acquire", owner,
               fmt::format(R"("token":{},"deadline":{})", token, deadline * 1'000'000));
  }
  Story& job(std::int64_t from, std::int64_t until, std::string_view owner) {
    return add(from, "child_start", "job", owner).add(until, "tree_dead", "job", owner);
  }
  Story& releases(std::int64_t t, std::string_view owner) {
    return add(t, "invoke", "release", owner).add(t + 1, "ok", "release", owner);
  }
  Story& fault(std::int64_t from, std::int64_t until, std::string_view more = {}) {
    const std::string extra = more.empty() ? "" : fmt::format(",{}", more);
    return add(from, "fault", "", "", R"("name":"f","phase":"begin")" + extra)
        .add(until, "fault", "", "", R"("name":"f","phase":"end")");
  }

  // The violated invariants, each once, separated by a space.
  std::string broken(const Bounds& bounds = {}) const {
    Reading r;
    read("story", text_, r);
    REQUIRE(r.error == "");
    sort_by_time(r);
    const Verdict v = check(gather(r.events), bounds);
    std::string out;
    for (const auto& [id, rule] : invariants)
      for (const Violation& x : v.violations)
        if (x.invariant == id && !out.ends_with(id))
          out += (out.empty() ? "" : " ") + std::string(id);
    for (const Violation& x : v.violations) CHECK_FALSE(x.excerpt.empty());
    return out;
  }

 private:
  std::string text_;
};

Story good() {
  return Story()
      .asks(0, "a")
      .granted(10, "a", 1, 1000)
      .asks(20, "b")
      .queued(30, "b")
      .job(11, 100, "a")
      .releases(110, "a")
      .granted(120, "b", 2, 1200)
      .job(121, 200, "b")
      .releases(210, "b");
}

}  // namespace

TEST_CASE("a history without errors violates nothing") {
  CHECK(good().broken({.hand_over = 50'000'000, .takeover = 50'000'000}) == "");
  CHECK(Story().broken() == "");
}

TEST_CASE("I1: two grants are valid at once") {
  const auto second_at = [](std::int64_t t) {
    return Story().asks(0, "a").granted(10, "a", 1, 100).asks(50, "b").granted(t, "b", 2, 300);
  };
  CHECK(second_at(99).broken() == "I1");
  CHECK(second_at(101).broken() == "");
  // A renewal moves the end, a release and a loss end it.
  CHECK(second_at(101).add(60, "ok", "renew", "a", R"("deadline":200000000)").broken() == "I1");
  CHECK(second_at(90).add(80, "invoke", "release", "a").broken() == "");
  CHECK(second_at(90).add(80, "fail", "renew", "a").broken() == "");
}

TEST_CASE("I1: modes and permits") {
  const auto second = [](const char* first_mode, const char* second_mode) {
    return Story()
        .asks(0, "a", first_mode)
        .granted(10, "a", 1, 100)
        .asks(20, "b", second_mode)
        .granted(50, "b", 2, 300)
        .broken();
  };
  const char* shared = R"("mode":"shared")";
  CHECK(second(shared, shared) == "");
  CHECK(second(shared, "") == "I1");
  CHECK(second("", shared) == "I1");
  const char* of_two = R"("mode":"permit","limit":2)";
  CHECK(second(of_two, of_two) == "");
  CHECK(second(of_two, R"("mode":"permit","limit":1)") == "I1");
}

TEST_CASE("I2: two jobs at once, and where only tokens protect") {
  Story s = Story()
                .asks(0, "a")
                .granted(10, "a", 1, 100)
                .job(11, 140, "a")
                .asks(20, "b")
                .granted(110, "b", 2, 300)
                .job(120, 130, "b");
  CHECK(s.broken() == "I2 I3");
  CHECK(s.fault(50, 125, R"("fenced_only":true)").broken() == "");
}

TEST_CASE("I2: the life of a job whose dlock was killed is known from its own events") {
  const auto alive = [](std::int64_t t) {
    return Story()
        .asks(0, "a")
        .granted(10, "a", 1, 100)
        .add(11, "child_start", "job", "a")
        .add(t, "alive", "job", "a")
        .asks(20, "b")
        .granted(110, "b", 2, 300)
        .job(120, 130, "b");
  };
  CHECK(alive(90).broken() == "");
  CHECK(alive(125).broken() == "I2 I3");
}

TEST_CASE("I3: a job outlives its deadline") {
  CHECK(Story().asks(0, "a").granted(10, "a", 1, 100).job(20, 101, "a").broken() == "I3");
  CHECK(Story()
            .asks(0, "a")
            .granted(10, "a", 1, 100)
            .add(90, "ok", "renew", "a", R"("deadline":190000000)")
            .job(20, 101, "a")
            .broken() == "");
}

TEST_CASE("I4: tokens rise in real time") {
  const auto tokens = [](int first, int second) {
    return Story()
        .asks(0, "a")
        .granted(10, "a", first, 20)
        .asks(30, "b")
        .granted(40, "b", second, 50)
        .broken();
  };
  CHECK(tokens(4, 5) == "");
  CHECK(tokens(5, 5) == "I4");
  CHECK(tokens(5, 4) == "I4");
  // Requested at the same time: either may come first.
  CHECK(Story()
            .asks(0, "a", R"("mode":"shared")")
            .asks(1, "b", R"("mode":"shared")")
            .granted(10, "a", 2, 20)
            .granted(11, "b", 1, 50)
            .broken({.in_order = false}) == "");
}

TEST_CASE("I5: the resource refuses older tokens, and counts every update") {
  const auto writes = [](int token, bool accepted, int value) {
    return Story()
        .add(1, "write", "", "", R"("token":2,"accepted":true,"value":7)")
        .add(2, "write", "", "",
             fmt::format(R"("token":{},"accepted":{},"value":{})", token, accepted, value))
        .broken();
  };
  CHECK(writes(2, true, 8) == "");
  CHECK(writes(1, true, 8) == "I5");
  CHECK(writes(1, false, 7) == "");
  CHECK(writes(3, true, 7) == "I5");
}

TEST_CASE("I6: a waiter gets the lock in time") {
  const Bounds bounds{.hand_over = 50'000'000, .takeover = 50'000'000};
  const auto second_at = [](std::int64_t t) {
    return Story()
        .asks(0, "a")
        .granted(10, "a", 1, 1000)
        .asks(20, "b")
        .queued(30, "b")
        .releases(110, "a")
        .granted(t, "b", 2, 1200);
  };
  CHECK(second_at(150).broken(bounds) == "");
  CHECK(second_at(170).broken(bounds) == "I6");
  CHECK(second_at(170).fault(100, 120).broken(bounds) == "");
  const auto after_crash = [](std::int64_t t) {
    return Story()
        .asks(0, "a")
        .granted(10, "a", 1, 100)
        .asks(20, "b")
        .queued(30, "b")
        .granted(t, "b", 2, 1200);
  };
  CHECK(after_crash(140).broken(bounds) == "");
  CHECK(after_crash(160).broken(bounds) == "I6");
  // A waiter that was killed waits no more.
  const auto left_alone = [](const char* killed) {
    return Story()
        .asks(0, "b")
        .queued(5, "b")
        .fault(6, 7, killed)
        .asks(100, "a")
        .granted(110, "a", 1, 1000)
        .releases(150, "a");
  };
  CHECK(left_alone(R"("pid":98)").broken(bounds) == "");
  CHECK(left_alone(R"("pid":99)").broken(bounds) == "I6 I7");
}

TEST_CASE("I7: every acquire ends, and nothing is left") {
  CHECK(Story().asks(0, "a").broken() == "I7");
  CHECK(Story().asks(0, "a").add(5, "exit", "run", "a", R"("code":69)").broken() == "");
  CHECK(Story().asks(0, "a").fault(5, 6, R"("pid":97)").broken() == "");  // its process was killed
  CHECK(Story().fault(5, 7, R"("pid":97)").asks(6, "a").broken() == "");
  CHECK(Story().fault(5, 6, R"("pid":97)").asks(7, "a").broken() == "I7");
  CHECK(good().add(300, "left", "", "", R"("name":"a queue entry")").broken() == "I7");
  CHECK(Story().fault(1, 2).asks(0, "a").add(29000, "fail", "acquire", "a").broken() == "");
  CHECK(Story().fault(1, 2).asks(0, "a").add(31000, "fail", "acquire", "a").broken() == "I7");
}

TEST_CASE("I8: a release ends the client's own grant, once") {
  CHECK(good().add(215, "ok", "release", "b").broken() == "I8");
  CHECK(good().add(205, "fail", "renew", "b").broken() == "I8");
  CHECK(Story()
            .asks(0, "a")
            .granted(10, "a", 1, 20)
            .asks(30, "b")
            .granted(40, "b", 2, 90)
            .releases(50, "a")
            .broken() == "I8");
  CHECK(Story().add(5, "ok", "release", "x").broken() == "I8");
}

TEST_CASE("a waiter that is granted as another owner is one attempt") {
  // In these histories the pid is the owner's first letter.
  CHECK(Story()
            .asks(0, "a")
            .queued(10, "a")
            .granted(20, "ab", 1, 1000)
            .job(21, 30, "ab")
            .releases(40, "ab")
            .broken() == "");
  CHECK(Story().asks(0, "a").granted(20, "b", 1, 1000).releases(40, "b").broken() == "I7 I8");
}

TEST_CASE("I9: the exit status agrees") {
  Story s = Story().asks(0, "a").granted(10, "a", 1, 1000).add(20, "child_start", "job", "a");
  CHECK(Story(s)
            .add(30, "tree_dead", "job", "a")
            .add(40, "exit", "run", "a", R"("code":0)")
            .broken() == "");
  CHECK(Story(s).add(40, "exit", "run", "a", R"("code":0)").broken() == "I9");
  CHECK(Story()
            .asks(0, "a")
            .add(5, "fail", "acquire", "a")
            .add(9, "exit", "run", "a", R"("code":123)")
            .broken() == "I9");
}

TEST_CASE("I10: no job without a grant") {
  CHECK(Story().asks(0, "a").add(5, "info", "acquire", "a").job(6, 9, "a").broken() == "I10");
  CHECK(Story().asks(0, "a").add(5, "info", "acquire", "a").broken() == "");
}

TEST_CASE("I11: grants in the order of the queue") {
  const auto story = [](std::int64_t c_asks) {
    return Story()
        .asks(0, "b")
        .queued(10, "b")
        .asks(c_asks, "c")
        .granted(30, "c", 1, 40)
        .granted(50, "b", 2, 60);
  };
  CHECK(story(20).broken() == "I11");
  CHECK(story(20).broken({.in_order = false}) == "");
  CHECK(story(5).broken() == "");
}

TEST_CASE("a torn last line is counted, another malformed line is an error") {
  Reading torn, bad;
  read("f",
       "{\"t\":1,\"ev\":\"invoke\",\"f\":\"acquire\",\"key\":\"k\",\"owner\":\"a\"}\n{\"t\":2,\"e",
       torn);
  CHECK((torn.error.empty() && torn.torn == 1 && torn.events.size() == 1));
  read("f", "{\"t\":1}\n", bad);
  CHECK(bad.error == "f:1: not an event of a history: {\"t\":1}");
}

TEST_CASE("the excerpt contains the events of the violation and no others") {
  Reading r;
  std::string text;
  for (int i = 0; i < 5000; ++i)
    for (const char* ev : {"invoke", "ok"})
      text +=
          fmt::format(
              R"({{"t":{},"pid":1,"ev":"{}","f":"acquire","key":"k","owner":"o{}","token":{},"deadline":{}}})",
              i * 10 + (ev[0] == 'o'), ev, i, i + 1, i * 10 + (i == 2500 ? 12 : 9)) +
          "\n";
  read("f", text, r);
  sort_by_time(r);
  const Verdict v = check(gather(r.events), {});
  REQUIRE(v.violations.size() == 1);
  CHECK(v.violations[0].invariant == "I1");
  CHECK(v.violations[0].excerpt.size() == 4);
  CHECK(v.figures.grants == 5000);
  CHECK(markdown(v).find("| I1 | grants of one key do not overlap while they are valid | 1 |") !=
        std::string::npos);
}
