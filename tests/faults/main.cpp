// SPDX-License-Identifier: Apache-2.0
// Clients on real servers under faults, judged by the checker of tests/support/history:
//   fault_runner [--target NAME[,...]] [--fault NAME[,...]] [--budget DURATION] [--seconds N]
//     [--keys N] [--clients N] [--seed N] [--json FILE] [--keep DIRECTORY] [--list]
//   fault_runner --grants N [--target NAME[,...]] [--json FILE]
// Prints a row per target and fault. --budget is shared by all cells (20m), of which each takes 4 s
// at least; --seconds is for each one. --grants: so many in all without faults, by clients of the
// Backend interface. --keep: the traces of cells that broke a promise. Programs: $DLOCK,
// $GUARDED_JOB. Status 1: a promise was broken; 64: wrong options; 77: no server of these is
// installed.
#include <fmt/format.h>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include "cell.hpp"
#include "core/duration.hpp"
#include "grants.hpp"
#include "support/options.hpp"
#include "support/server.hpp"
#include "table.hpp"

using namespace dlock;
using namespace dlock::faults;

namespace {

std::set<std::string> words(const std::string& text) {
  std::set<std::string> all;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) all.insert(word);
  return all;
}

struct Cell {
  const Recipe* recipe;
  Fault fault;
};

std::vector<Cell> selected(const std::set<std::string>& targets,
                           const std::set<std::string>& faults, std::vector<std::string>& absent) {
  std::vector<Cell> cells;
  for (const Recipe& r : recipes()) {
    if (!targets.empty() && targets.count(std::string{r.name}) == 0) continue;
    if (!test::missing(std::string{r.store}).empty()) {
      absent.emplace_back(r.name);
      continue;
    }
    for (const FaultName& f : all_faults())
      if ((faults.empty() || faults.count(std::string{f.name}) != 0) && applies(r, f.fault))
        cells.push_back({&r, f.fault});
  }
  return cells;
}

// Seconds around those of a cell: a server's start, the first grants, and the last round, which
// ends late.
constexpr double around = 5;

double budget(const test::Options& o, std::size_t cells) {
  if (o.has("--seconds")) return static_cast<double>(o.number("--seconds", 8));
  const auto whole = parse_duration(o.text("--budget", "20m"));
  if (!whole) test::wrong_options("--budget: " + whole.error().message);
  return std::max(
      1.0, std::chrono::duration<double>(*whole).count() / static_cast<double>(cells) - around);
}

// A name that is misspelt would leave out what it stands for.
template <class All>
void all_known(const char* option, const std::set<std::string>& given, const All& all) {
  std::set<std::string> known;
  for (const auto& one : all) known.emplace(one.name);
  for (const std::string& name : given)
    if (known.count(name) == 0)
      test::wrong_options(
          fmt::format("{}: no '{}'; there are {}", option, name, fmt::join(known, " ")));
}

void refuse_contradictions(const test::Options& o) {
  if (o.has("--budget") && o.has("--seconds"))
    test::wrong_options("--budget and --seconds exclude each other");
  if (!o.has("--grants")) return;
  for (const char* other :
       {"--fault", "--budget", "--seconds", "--keys", "--clients", "--seed", "--keep", "--list"})
    if (o.has(other)) test::wrong_options(fmt::format("--grants has no faults, so no {}", other));
}

}  // namespace

int main(int argc, char** argv) {
  const test::Options o(argc, argv, {"--list"},
                        {"--target", "--fault", "--budget", "--seconds", "--keys", "--clients",
                         "--seed", "--json", "--keep", "--grants"});
  refuse_contradictions(o);
  std::vector<std::string> absent;
  const auto targets = words(o.text("--target", ""));
  const auto faults = words(o.text("--fault", ""));
  all_known("--target", targets, recipes());
  all_known("--fault", faults, all_faults());
  const auto cells = selected(targets, faults, absent);
  if (o.has("--list")) {
    for (const Cell& c : cells) fmt::print("{} {}\n", c.recipe->name, name_of(c.fault));
    return 0;
  }
  for (const std::string& name : absent) fmt::print("{}: not run, no server installed\n", name);
  if (cells.empty()) {
    if (!absent.empty()) return test::skipped;
    test::wrong_options("none of these faults applies to these targets, see --list");
  }
  std::ofstream results;
  if (o.has("--json")) {
    results.open(o.text("--json", ""));
    if (!results) test::wrong_options("--json " + o.text("--json", "") + ": cannot be written");
  }
  ::signal(SIGPIPE, SIG_IGN);
  Terms terms{.dlock = test::program_from("DLOCK"),
              .job = test::program_from("GUARDED_JOB"),
              .seconds = budget(o, cells.size()),
              .keys = static_cast<std::size_t>(o.number("--keys", 4)),
              .clients_per_key = static_cast<std::size_t>(o.number("--clients", 4)),
              .seed = static_cast<unsigned>(o.number("--seed", 1)),
              .keep = o.text("--keep", "")};
  if (terms.keys < 1 || terms.keys > Arena::most_keys)
    test::wrong_options(fmt::format("--keys: 1 to {}", Arena::most_keys));
  test::clean_environment();

  std::vector<Row> rows;
  const auto report = [&](Row row) {
    fmt::print("{}", line(row));
    std::fflush(stdout);
    rows.push_back(std::move(row));
  };
  if (!o.has("--grants"))
    fmt::print(stderr, "{} cells, up to about {:.0f} minutes\n", cells.size(),
               static_cast<double>(cells.size()) * (terms.seconds + around) / 60 + 1);
  fmt::print("{}", head());
  if (const auto grants = static_cast<std::size_t>(o.number("--grants", 0)); grants != 0) {
    for (const Recipe& r : recipes())
      if (test::missing(std::string{r.store}).empty() &&
          (targets.empty() || targets.count(std::string{r.name}) != 0))
        report(run_grants(r, grants * r.share / 1000));
  } else {
    for (const Cell& c : cells) report(run_cell(*c.recipe, c.fault, terms));
  }
  fmt::print("{}", sum(rows));
  if (results.is_open() && !(results << json(rows) << std::endl))
    test::give_up("--json " + o.text("--json", "") + ": not written");
  const bool broken =
      std::any_of(rows.begin(), rows.end(), [](const Row& r) { return !r.broken.empty(); });
  return broken ? 1 : 0;
}
