// SPDX-License-Identifier: Apache-2.0
// Hand-made histories: for each invariant one that keeps it and one that breaks it.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <chrono>
#include <sstream>
#include <string>
#include "history/report.hpp"

using namespace dlock::history;

namespace {

// A history of one key, told as steps with commas between them. Each begins with its time in ms and
// who does it, of whom the first letter is the pid:
//   asks [MODE [LIMIT]]   queued   granted TOKEN DEADLINE   renewed DEADLINE   released (in 1 ms)
//   job END (of its tree)   exits CODE   fault END [FIELD]   writes TOKEN ACCEPTED VALUE   left
// Any other event is EVENT:OPERATION.
std::string history(const std::string& story) {
  std::string text;
  const auto add = [&](std::int64_t ms, const std::string& ev, const std::string& f,
                       std::string owner, const std::string& more = {}) {
    if (owner == "-") owner.clear();
    text += fmt::format(R"({{"t":{},"pid":{},"ev":"{}","f":"{}","key":"k","owner":"{}"{}{}}})",
                        ms * 1'000'000, owner.empty() ? 0 : owner[0], ev, f, owner,
                        more.empty() ? "" : ",", more) +
            "\n";
  };
  const auto deadline = [](std::int64_t ms) {
    return fmt::format(R"("deadline":{})", ms * 1'000'000);
  };
  std::istringstream steps(story);
  for (std::string step; std::getline(steps, step, ',');) {
    std::istringstream words(step);
    std::int64_t t = 0, number = 0, other = 0;
    std::string owner, what, word;
    words >> t >> owner >> what;
    if (what == "asks") {
      words >> word >> number;
      if (!word.empty()) word = fmt::format(R"("mode":"{}")", word);
      if (number > 0) word += fmt::format(R"(,"limit":{})", number);
      add(t, "invoke", "acquire", owner, word);
    } else if (what == "queued") {
      add(t, "queued", "acquire", owner);
    } else if (what == "granted") {
      words >> number >> other;
      add(t, "ok", "acquire", owner, fmt::format(R"("token":{},{})", number, deadline(other)));
    } else if (what == "renewed") {
      words >> number;
      add(t, "ok", "renew", owner, deadline(number));
    } else if (what == "released") {
      add(t, "invoke", "release", owner);
      add(t + 1, "ok", "release", owner);
    } else if (what == "job") {
      words >> number;
      add(t, "child_start", "job", owner);
      add(number, "tree_dead", "job", owner);
    } else if (what == "exits") {
      words >> number;
      add(t, "exit", "run", owner, fmt::format(R"("code":{})", number));
    } else if (what == "fault") {
      words >> number >> word;
      add(t, "fault", "", "", R"("name":"f","phase":"begin")" + (word.empty() ? "" : "," + word));
      add(number, "fault", "", "", R"("name":"f","phase":"end")");
    } else if (what == "writes") {
      words >> number >> word >> other;
      add(t, "write", "", "",
          fmt::format(R"("token":{},"accepted":{},"value":{})", number, word, other));
    } else if (what == "left") {
      add(t, "left", "", "", R"("name":"a queue entry")");
    } else {
      const std::size_t colon = what.find(':');
      REQUIRE(colon != what.npos);
      add(t, what.substr(0, colon), what.substr(colon + 1), owner);
    }
  }
  return text;
}

// The violated invariants, each once, separated by a space.
std::string broken(const std::string& story, const Bounds& bounds = {}) {
  Reading r;
  read("story", history(story), r);
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

const std::string good =
    "0 a asks, 10 a granted 1 1000, 20 b asks, 30 b queued, 11 a job 100, 110 a released,"
    "120 b granted 2 1200, 121 b job 200, 210 b released";
constexpr Bounds in_50_ms{.hand_over = 50'000'000, .takeover = 50'000'000};

}  // namespace

TEST_CASE("a history without errors violates nothing") {
  CHECK(broken(good, in_50_ms) == "");
  CHECK(broken("") == "");
}

TEST_CASE("I1: two grants are valid at once") {
  const std::string first = "0 a asks, 10 a granted 1 100, 50 b asks,";
  CHECK(broken(first + "99 b granted 2 300") == "I1");
  CHECK(broken(first + "101 b granted 2 300") == "");
  // A renewal moves the end, a release and a loss end it.
  CHECK(broken(first + "101 b granted 2 300, 60 a renewed 200") == "I1");
  CHECK(broken(first + "90 b granted 2 300, 80 a invoke:release") == "");
  CHECK(broken(first + "90 b granted 2 300, 80 a fail:renew") == "");
}

TEST_CASE("I1: modes and permits") {
  const auto second = [](const char* first_mode, const char* second_mode) {
    return broken(fmt::format("0 a asks {}, 10 a granted 1 100, 20 b asks {}, 50 b granted 2 300",
                              first_mode, second_mode));
  };
  CHECK(second("shared", "shared") == "");
  CHECK(second("shared", "") == "I1");
  CHECK(second("", "shared") == "I1");
  CHECK(second("permit 2", "permit 2") == "");
  CHECK(second("permit 2", "permit 1") == "I1");
}

TEST_CASE("I2: two jobs at once, and where only tokens protect") {
  const std::string two =
      "0 a asks, 10 a granted 1 100, 11 a job 140, 20 b asks, 110 b granted 2 300, 120 b job 130";
  CHECK(broken(two) == "I2 I3");
  CHECK(broken(two + R"(, 50 - fault 125 "fenced_only":true)") == "");
}

TEST_CASE("I2: the life of a job whose dlock was killed is known from its own events") {
  const auto alive = [](int t) {
    return broken(
        fmt::format("0 a asks, 10 a granted 1 100, 11 a child_start:job, {} a alive:job,"
                    "20 b asks, 110 b granted 2 300, 120 b job 130",
                    t));
  };
  CHECK(alive(90) == "");
  CHECK(alive(125) == "I2 I3");
}

TEST_CASE("I3: a job outlives its deadline") {
  CHECK(broken("0 a asks, 10 a granted 1 100, 20 a job 101") == "I3");
  CHECK(broken("0 a asks, 10 a granted 1 100, 90 a renewed 190, 20 a job 101") == "");
}

TEST_CASE("I4: tokens rise in real time") {
  const auto tokens = [](int first, int second) {
    return broken(
        fmt::format("0 a asks, 10 a granted {} 20, 30 b asks, 40 b granted {} 50", first, second));
  };
  CHECK(tokens(4, 5) == "");
  CHECK(tokens(5, 5) == "I4");
  CHECK(tokens(5, 4) == "I4");
  // Requested at the same time: either may come first.
  CHECK(broken("0 a asks shared, 1 b asks shared, 10 a granted 2 20, 11 b granted 1 50",
               {.in_order = false}) == "");
}

TEST_CASE("I5: the resource refuses older tokens, and counts every update") {
  CHECK(broken("1 - writes 2 true 7, 2 - writes 2 true 8") == "");
  CHECK(broken("1 - writes 2 true 7, 2 - writes 1 true 8") == "I5");
  CHECK(broken("1 - writes 2 true 7, 2 - writes 1 false 7") == "");
  CHECK(broken("1 - writes 2 true 7, 2 - writes 3 true 7") == "I5");
}

TEST_CASE("I6: a waiter gets the lock in time") {
  const std::string handed =
      "0 a asks, 10 a granted 1 1000, 20 b asks, 30 b queued, 110 a released,";
  CHECK(broken(handed + "150 b granted 2 1200", in_50_ms) == "");
  CHECK(broken(handed + "170 b granted 2 1200", in_50_ms) == "I6");
  CHECK(broken(handed + "170 b granted 2 1200, 100 - fault 120", in_50_ms) == "");
  const std::string crashed = "0 a asks, 10 a granted 1 100, 20 b asks, 30 b queued,";
  CHECK(broken(crashed + "140 b granted 2 1200", in_50_ms) == "");
  CHECK(broken(crashed + "160 b granted 2 1200", in_50_ms) == "I6");
  // A waiter that was killed waits no more.
  const auto killed = [](const char* pid) {
    return broken(fmt::format(R"(0 b asks, 5 b queued, 6 - fault 7 "pid":{}, 100 a asks,)"
                              "110 a granted 1 1000, 150 a released",
                              pid),
                  in_50_ms);
  };
  CHECK(killed("98") == "");
  CHECK(killed("99") == "I6 I7");
}

TEST_CASE("I7: every acquire ends, and nothing is left") {
  CHECK(broken("0 a asks") == "I7");
  CHECK(broken("0 a asks, 5 a exits 69") == "");
  CHECK(broken(R"(0 a asks, 5 - fault 6 "pid":97)") == "");  // its process was killed
  CHECK(broken(R"(5 - fault 7 "pid":97, 6 a asks)") == "");
  CHECK(broken(R"(5 - fault 6 "pid":97, 7 a asks)") == "I7");
  CHECK(broken(good + ", 300 - left") == "I7");
  CHECK(broken("1 - fault 2, 0 a asks, 29000 a fail:acquire") == "");
  CHECK(broken("1 - fault 2, 0 a asks, 31000 a fail:acquire") == "I7");
}

TEST_CASE("I8: a release ends the client's own grant, once") {
  CHECK(broken(good + ", 215 b ok:release") == "I8");
  CHECK(broken(good + ", 205 b fail:renew") == "I8");
  CHECK(broken("0 a asks, 10 a granted 1 20, 30 b asks, 40 b granted 2 90, 50 a released") == "I8");
  CHECK(broken("5 x ok:release") == "I8");
}

TEST_CASE("a waiter that is granted as another owner is one attempt") {
  CHECK(broken("0 a asks, 10 a queued, 20 ab granted 1 1000, 21 ab job 30, 40 ab released") == "");
  CHECK(broken("0 a asks, 20 b granted 1 1000, 40 b released") == "I7 I8");
}

TEST_CASE("I9: the exit status agrees") {
  const std::string begun = "0 a asks, 10 a granted 1 1000, 20 a child_start:job,";
  CHECK(broken(begun + "30 a tree_dead:job, 40 a exits 0") == "");
  CHECK(broken(begun + "40 a exits 0") == "I9");
  CHECK(broken("0 a asks, 5 a fail:acquire, 9 a exits 123") == "I9");
}

TEST_CASE("I10: no job without a grant") {
  CHECK(broken("0 a asks, 5 a info:acquire, 6 a job 9") == "I10");
  CHECK(broken("0 a asks, 5 a info:acquire") == "");
}

TEST_CASE("I11: grants in the order of the queue") {
  const std::string passed = "30 c granted 1 40, 50 b granted 2 60";
  CHECK(broken("0 b asks, 10 b queued, 20 c asks," + passed) == "I11");
  CHECK(broken("0 b asks, 10 b queued, 20 c asks," + passed, {.in_order = false}) == "");
  CHECK(broken("0 b asks, 10 b queued, 5 c asks," + passed) == "");
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
