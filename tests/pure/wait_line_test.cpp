// SPDX-License-Identifier: Apache-2.0
#include "report/wait_line.hpp"
#include <catch2/catch.hpp>
#include <vector>

using namespace dlock;
using namespace dlock::run;
using namespace std::chrono_literals;

TEST_CASE("the line of a wait loses whole words where the terminal is narrow") {
  const std::string holder = "nightly is held by db3:41223 (backup) for 31m";
  const WaitText text{holder, "up to 1h", "(position 2)"};
  CHECK(text.whole() == holder + "; waiting up to 1h (position 2)");
  CHECK(text.fitted(120) == "dlock: " + text.whole());
  CHECK(text.fitted(80) == "dlock: " + holder + "; waiting (position 2)");
  CHECK(text.fitted(70) == "dlock: " + holder + "; waiting");
  CHECK(text.fitted(60) == "dlock: nightly is held by db3:41223 (backup) for 31m...");
  CHECK(text.fitted(4) == "...");
  CHECK(text.fitted(0).empty());
  for (std::size_t width = 1; width < 130; ++width) CHECK(text.fitted(width).size() < width);

  const WaitText reason{holder + ": the report of november, which ana wants", "up to 1h",
                        "(position 2)"};
  CHECK(reason.fitted(80) ==
        "dlock: nightly is held by db3:41223 (backup) for 31m...; waiting (position 2)");
  CHECK(WaitText{"k is not free"}.fitted(80) == "dlock: k is not free; waiting");
}

TEST_CASE("a text is shortened between words, and within one only where it is the first") {
  CHECK(shortened("one two", 7) == "one two");
  CHECK(shortened("one two three", 10) == "one two...");
  CHECK(shortened("one two three", 9) == "one...");
  CHECK(shortened("one, two three", 10) == "one...");
  CHECK(shortened("a-long-word", 8) == "a-lon...");
  CHECK(shortened("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", 7) == "\xc3\xa4\xc3\xb6...");
  CHECK(shortened("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", 6) == "\xc3\xa4...");
  CHECK(shortened("word", 2) == "..");
}

TEST_CASE("a wait is said after 500 ms, then each second at a terminal and seldom in a log") {
  const Deadline since = Deadline{} + 1h;
  std::vector<std::string> raw, said;
  const auto line = [&](WaitLine::Style style) {
    return WaitLine(
        style, since, [&](std::string text) { raw.push_back(std::move(text)); },
        [&](std::string text) { said.push_back(std::move(text)); });
  };
  const auto times = [&](WaitLine& wait, Duration until) {
    std::vector<Duration> all;
    for (Duration t{}; t < until; t += 100ms) {
      if (!wait.due(later(since, t))) continue;
      wait.mark_shown(later(since, t));
      all.push_back(t);
    }
    return all;
  };
  {
    WaitLine log = line(WaitLine::Style::repeated);
    CHECK(times(log, 3h) == std::vector<Duration>{500ms, 1min, 10min, 1h});
    log.show({"k is not free", "up to 1m"});
  }
  CHECK(said == std::vector<std::string>{"k is not free; waiting up to 1m"});
  CHECK(raw.empty());
  {
    WaitLine terminal = line(WaitLine::Style::redrawn);
    CHECK(times(terminal, 3s) == std::vector<Duration>{500ms, 1500ms, 2500ms});
    terminal.show({"k is not free"});
  }
  CHECK(raw == std::vector<std::string>{"\rdlock: k is not free; waiting\033[K", "\r\033[K"});
  CHECK(said.size() == 1);
}
