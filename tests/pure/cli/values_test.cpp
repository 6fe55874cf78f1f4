// SPDX-License-Identifier: Apache-2.0
#include "cli/options/values.hpp"
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include "cli/options/suggestions.hpp"
#include "pure/message.hpp"

using namespace dlock;
using namespace dlock::cli;
using namespace dlock::test;

TEST_CASE("numbers: digits only, within bounds") {
  CHECK(parse_number("0", 0, 255) == 0U);
  CHECK(parse_number("255", 0, 255) == 255U);
  CHECK(parse_number("007", 1, 9) == 7U);
  CHECK(parse_number("18446744073709551615", 0, UINT64_MAX) == UINT64_MAX);
  for (const std::string_view bad :
       {"", "256", "-1", "+1", " 1", "1 ", "0x10", "1.0", "1e2", "18446744073709551616"}) {
    INFO(bad);
    const auto n = parse_number(bad, 0, 255);
    REQUIRE_FALSE(n);
    CHECK(is_good_message(n.error()));
  }
  CHECK_FALSE(parse_number("0", 1, 255));
}

TEST_CASE("signals: by name, with or without SIG, and by number") {
  CHECK(parse_signal("TERM") == SIGTERM);
  CHECK(parse_signal("SIGTERM") == SIGTERM);
  CHECK(parse_signal("15") == SIGTERM);
  CHECK(parse_signal("RTMIN") == SIGRTMIN);
  CHECK(parse_signal("SIGRTMIN+3") == SIGRTMIN + 3);
  CHECK(parse_signal("RTMAX-1") == SIGRTMAX - 1);
  CHECK(parse_signal(std::to_string(SIGRTMAX)) == SIGRTMAX);
  for (const std::string_view bad : {"", "0", "32", "33", "65", "-1", "SIG", "SIGSIGTERM", "term",
                                     "RTMIN+99", "RTMIN-1", "RTMAX+1", "RTMIN+"}) {
    INFO(bad);
    const auto n = parse_signal(bad);
    REQUIRE_FALSE(n);
    CHECK(is_good_message(n.error()));
  }
}

TEST_CASE("switches in variables and files") {
  for (const std::string_view yes : {"1", "true", "yes", "on"}) CHECK(parse_switch(yes) == true);
  for (const std::string_view no : {"0", "false", "no", "off"}) CHECK(parse_switch(no) == false);
  for (const std::string_view bad : {"", "TRUE", "2", "y", " on"}) CHECK_FALSE(parse_switch(bad));
}

TEST_CASE("the nearest name") {
  constexpr std::array<std::string_view, 4> names{"key", "nonblock", "no-env", "quiet"};
  CHECK(nearest("kye", names) == "key");       // neighbours exchanged
  CHECK(nearest("non", names) == "nonblock");  // begins one only
  CHECK(nearest("quite", names) == "quiet");
  CHECK(nearest("nonblok", names) == "nonblock");
  CHECK(nearest("no", names) != "quiet");
  CHECK(nearest("bogus", names).empty());
  CHECK(nearest("k", names).empty());  // too short to resemble anything
  CHECK(nearest(std::string(40, 'k'), names).empty());
}

TEST_CASE("a host and the usual port of a service propose a URL") {
  CHECK(proposed_url("localhost:6379") == "redis://localhost:6379");
  CHECK(proposed_url("127.0.0.1:3306") == "mysql://127.0.0.1:3306");
  CHECK(proposed_url("[::1]:2181") == "zookeeper://[::1]:2181");
  for (const std::string_view other : {"", ":6379", "localhost", "localhost:1", "redis://h:6379",
                                       "file:/6379", "a b:6379", "h:63790", "h:6379/0", "u@h:6379"})
    CHECK(proposed_url(other).empty());
}
