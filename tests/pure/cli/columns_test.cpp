// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdint>
#include "cli/inspect/key_state.hpp"
#include "cli/inspect/output.hpp"

using namespace dlock;
using namespace dlock::cli;

namespace {

std::string chosen(std::string_view columns) {
  Options o;
  o.verb = Verb::inspect;
  o.columns = columns;
  const auto all = choose_columns(o);
  if (!all) return "error: " + all.error().message;
  std::string names;
  for (const Column* c : *all) names += (names.empty() ? "" : ",") + std::string(c->name);
  return names;
}

}  // namespace

TEST_CASE("the columns of inspect: all usual ones, added ones, or exactly those named") {
  const std::string usual = chosen("");
  CHECK(usual == "KEY,STATE,MODE,HOLDER,ASKED,AGE,LEASE,TOKEN,WAIT,REASON");
  CHECK(chosen("TOKEN,KEY") == "TOKEN,KEY");
  CHECK(chosen("token,Key,TOKEN") == "TOKEN,KEY");  // in any case, each once
  CHECK(chosen("+SLOT") == usual + ",SLOT");
  CHECK(chosen("+KEY") == usual);
}

TEST_CASE("the error for an unknown column lists the known ones") {
  for (const std::string_view bad :
       {"NOPE", "KEY,", ",KEY", "KEY,,TOKEN", "+", "KEY TOKEN", "\x1b"}) {
    const std::string error = chosen(bad);
    INFO(error);
    CHECK(error.starts_with("error: --columns: '"));
    CHECK(error.find("is not a column: KEY, STATE, MODE") != std::string::npos);
  }
}

TEST_CASE("a free key shows a dash to people and an empty field to programs") {
  const KeyView free = free_key(Key::parse("k").value());
  Options o;
  o.verb = Verb::inspect;
  o.columns = "KEY,HOLDER,HOST,LEASE";
  o.csv = o.no_heading = true;
  const auto columns = choose_columns(o).value();
  CHECK(table_of({free}, columns, o) == "k,,,\n");
}

TEST_CASE("a table that is too wide loses the token first, never the waiters and the reason") {
  KeyView k = free_key(Key::parse("nightly-backup").value());
  HolderView& h = k.holders.emplace_back();
  h.token = 1'795'893'794'599'463;
  h.remaining = std::chrono::minutes{31};
  h.granted_at = later(Clock::now(), -*h.remaining);
  h.who.host = "db3.example.com";
  h.who.pid = 41223;
  h.who.user = "backup";
  h.who.reason = "the report";
  const auto head = [&](std::size_t width, std::string_view columns = {}) {
    Options o;
    o.verb = Verb::inspect;
    o.columns = columns;
    const std::string text = table_of({k}, choose_columns(o).value(), o, width);
    std::string names;
    bool apart = false;
    for (const char c : text.substr(0, text.find('\n'))) {
      if (c != ' ' && apart) names += ' ';
      apart = c == ' ';
      if (!apart) names += c;
    }
    return names;
  };
  const std::string all = "KEY STATE MODE HOLDER ASKED AGE LEASE TOKEN WAIT REASON";
  CHECK(head(SIZE_MAX) == all);
  CHECK(head(132) == all);
  CHECK(head(110) == "KEY STATE MODE HOLDER ASKED AGE LEASE WAIT REASON");
  CHECK(head(80) == "KEY STATE HOLDER AGE LEASE WAIT REASON");
  CHECK(head(20) == "KEY STATE HOLDER AGE LEASE WAIT REASON");
  CHECK(head(80, "+token") == "KEY STATE HOLDER AGE LEASE TOKEN WAIT REASON");
  CHECK(head(20, "KEY,TOKEN,MODE") == "KEY TOKEN MODE");
}

TEST_CASE("AGE counts from the grant, and is unknown where only the request is known") {
  KeyView k = free_key(Key::parse("k").value());
  HolderView& h = k.holders.emplace_back();
  h.who.host = "h";
  h.who.since = wall_micros() - 3'600'000'000;
  Options o;
  o.verb = Verb::inspect;
  o.columns = "AGE";
  o.csv = o.no_heading = true;
  const auto columns = choose_columns(o).value();
  CHECK(table_of({k}, columns, o) == "?\n");
  h.granted_at = later(Clock::now(), -std::chrono::minutes{1});
  const int age = std::stoi(table_of({k}, columns, o));
  CHECK((age >= 60'000 && age < 3'600'000));
}
