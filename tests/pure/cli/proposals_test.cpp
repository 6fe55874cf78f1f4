// SPDX-License-Identifier: Apache-2.0
// What inspect proposes to an operator, by who holds.
#include <catch2/catch.hpp>
#include <functional>
#include <sstream>
#include "cli/inspect/key_state.hpp"
#include "cli/inspect/output.hpp"
#include "job/process.hpp"

using namespace dlock;
using namespace dlock::cli;
using namespace std::chrono_literals;

namespace {

OpenStore open(std::string_view recipe) {
  Options o;
  o.verb = Verb::inspect;
  o.backend = "file:/nowhere";
  o.recipe = recipe;
  o.quiet = true;
  auto opened = open_store(o);
  REQUIRE(opened);
  return std::move(*opened);
}

// A run of this very process with a lease.
HolderView of_a_run() {
  HolderView h;
  h.id = "0123abcd";
  h.token = 7;
  h.remaining = 27s;
  h.who = Identity::mine("");
  run::identify(h.who);
  REQUIRE(run::find_process(h.who) == run::Presence::lives);
  return h;
}

struct Proposed {
  std::string words;     // the first word of each line that says how the lock can be ended
  std::string commands;  // the rest of these lines
  std::string all;
};

Proposed proposed(const KeyView& k, std::string_view recipe = "lease") {
  Proposed p;
  p.all = text_of_key(k, open(recipe));
  std::istringstream lines(p.all);
  for (std::string line; std::getline(lines, line);)
    for (const std::string_view word : {"revoke ", "kill ", "force ", "end "})
      if (line.starts_with(word)) {
        p.words += word;
        p.commands += line.substr(line.find_first_not_of(' ', word.size())) + '\n';
      }
  return p;
}

KeyView held_by(std::vector<HolderView> holders) {
  KeyView k;
  k.key = "k";
  k.fence = 7;
  k.holders = std::move(holders);
  return k;
}

void reuse_pid(HolderView& h) { h.who.process->start += 1; }  // the pid is another process now

// Another program's record says nothing of the holder.
void make_foreign(HolderView& h) {
  h.who = {};
  h.remaining.reset();
}

struct ProposalRow {
  std::string_view who;
  std::function<void(HolderView&)> changes;
  std::string_view words, recipe = "lease";
};

const std::string_view cannot = "only that program can end it";

}  // namespace

TEST_CASE("inspect proposes what ends this holder, and nothing else") {
  const std::vector<ProposalRow> rows{
      {"a run", [](auto&) {}, "revoke kill force "},
      {"a run that was killed", reuse_pid, "force "},
      {"a run, asked to stop before", [](auto& h) { h.revoked = true; }, "kill force "},
      {"a run, with a recipe that cannot ask", [](auto&) {}, "kill force ", "flock"},
      {"a run of another host", [](auto& h) { h.who.host = "far.away"; }, "revoke force "},
      {"a run of another PID namespace", [](auto& h) { h.who.process->pid_namespace += 1; },
       "revoke force "},
      {"a run that did not say which process it is", [](auto& h) { h.who.process.reset(); },
       "revoke force "},
      {"a run that vanished, lock-delay", [](auto& h) { h.vanished = true; }, "force "},
      {"acquire",
       [](auto& h) {
         h.who.kept_by = Identity::KeptBy::nobody;
         reuse_pid(h);
       },
       "force "},
      {"acquire of another host",
       [](auto& h) {
         h.who.kept_by = Identity::KeptBy::nobody;
         h.who.host = "far.away";
       },
       "force "},
      {"acquire --keep", [](auto& h) { h.who.kept_by = Identity::KeptBy::keeper; },
       "revoke kill force "},
      {"acquire --keep, its keeper was killed",
       [](auto& h) {
         h.who.kept_by = Identity::KeptBy::keeper;
         reuse_pid(h);
       },
       "force "},
      {"another program", make_foreign, "force "},
      {"another program, which has no token",
       [](auto& h) {
         make_foreign(h);
         h.token = 0;
       },
       "force "},
      {"another program, which the store cannot end",
       [](auto& h) {
         make_foreign(h);
         h.token = 0;
         h.stays_because = cannot;
       },
       "end "},
  };
  for (const ProposalRow& row : rows) {
    INFO(row.who);
    HolderView h = of_a_run();
    row.changes(h);
    const Proposed p = proposed(held_by({h}), row.recipe);
    INFO(p.all);
    CHECK(p.words == row.words);
    const std::string force = h.token ? "--force --token 7\n" : "--force --yes\n";
    CHECK(p.commands.ends_with(h.stays_because.empty() ? force : std::string(cannot) + "\n"));
  }
}

TEST_CASE("inspect says what ends the lock of a dlock that is no longer running") {
  const auto says = [](HolderView h) {
    return text_of_key(held_by({std::move(h)}), open("lease"));
  };
  HolderView h = of_a_run();
  CHECK_THAT(says(h), !Catch::Contains("no longer running"));
  reuse_pid(h);
  CHECK_THAT(says(h), Catch::Contains("no longer running; the lease expires in 27s by itself"));
  h.who.kept_by = Identity::KeptBy::nobody;
  CHECK_THAT(says(h), Catch::Contains("has ended, as with acquire"));
  h.who.kept_by = Identity::KeptBy::process;
  h.remaining.reset();
  h.attached = true;
  CHECK_THAT(says(h), Catch::Contains("no longer running; the lock ends with its job"));
}

TEST_CASE("what --min-hold left is removed by force alone") {
  HolderView h = of_a_run();
  reuse_pid(h);
  KeyView k = held_by({h});
  k.last_run.emplace();
  k.last_run->token = h.token;
  CHECK(proposed(k).words == "force ");
}

TEST_CASE("of several holders the first that can be removed is") {
  HolderView told = of_a_run(), other = of_a_run();
  told.token = 5;
  told.stays_because = "the holder was asked to release";
  const Proposed p = proposed(held_by({told, other}), "flock");
  INFO(p.all);
  CHECK(p.words == "kill force ");
  CHECK(p.commands.ends_with("--force --token 7\n"));
}
