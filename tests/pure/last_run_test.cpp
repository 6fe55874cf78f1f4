// SPDX-License-Identifier: Apache-2.0
#include "store/last_run.hpp"
#include <catch2/catch.hpp>

using namespace dlock;

TEST_CASE("the record of a last run is text that comes back") {
  LastRun run{42, 1'700'000'000'000'007, {false, 255}, 1'700'000'000'000'000, {}};
  run.who.host = "db|3 a";
  run.who.pid = 4123;
  for (const RunEnd end : {RunEnd{false, 0}, RunEnd{false, 255}, RunEnd{true, 15}})
    for (const char between : {' ', '|'}) {
      run.end = end;
      const auto back = LastRun::parse(run.text(between), between);
      REQUIRE(back);
      CHECK(back->token == 42);
      CHECK(back->ended == run.ended);
      CHECK(back->started == run.started);
      CHECK(back->end.by_signal == end.by_signal);
      CHECK(back->end.value == end.value);
      CHECK(back->who.host == "db|3 a");
      CHECK(back->who.pid == 4123);
    }
  CHECK(LastRun::parse("00000000000000000042 9 s15 7 host=h", ' ')->token == 42);
}

TEST_CASE("what is no record of a last run is nothing") {
  for (const char* text :
       {"", " ", "42", "42 9", "42 9 3", "42 9 256 7 host=h", "42 9 s 7 host=h", "42 9 x3 7 host=h",
        "-1 9 3 7 host=h", "42 9 -3 7 host=h", "42 -9 3 7 h=h", "42 9 3 -7 h=h", "42|9|3|7|h"}) {
    CAPTURE(text);
    CHECK_FALSE(LastRun::parse(text, ' '));
  }
}
