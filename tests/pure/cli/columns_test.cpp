// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
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
  CHECK(chosen("+SINCE") == usual + ",SINCE");
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
