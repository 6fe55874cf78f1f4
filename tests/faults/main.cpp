// SPDX-License-Identifier: Apache-2.0
// Clients on real servers under faults, judged by the checker of tests/support/history:
//   fault_runner [--target NAME[,...]] [--fault NAME[,...]] [--budget DURATION] [--seconds N]
//     [--keys N] [--clients N] [--seed N] [--json FILE] [--keep DIRECTORY] [--list]
//   fault_runner --defaults [--all] [--ttl SECONDS] [--target NAME[,...]] [--fault NAME[,...]]
//     [--json FILE] [--keep DIRECTORY]
//   fault_runner --grants N [--target NAME[,...]] [--json FILE]
// Prints a row per target and fault. "restart+kill-dlock": the second fault midway through the
// first. --budget is shared by all cells (20m), and each cell takes 4 s at least; --seconds is for
// each one. --defaults: servers as distributions configure them and URLs without items, jobs and
// waits of three times the ttl (--ttl; the least of the store), without a fault or with these; all
// cells side by side, since most of their time is a wait. --all: every recipe and mode of the store
// and not only its default. --grants: so many in all without faults, by clients of the Backend
// interface. --keep: the traces of cells that broke a promise. Programs: $DLOCK, $GUARDED_JOB.
// Status 1: a promise was broken; 64: wrong options; 77: no server of these is installed.
#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <future>
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
  Faults faults;
};

// At defaults a target stands for its store, whose recipes are kinds of it.
bool is_first_of_store(const Recipe& r) {
  return &*std::find_if(recipes().begin(), recipes().end(),
                        [&](const Recipe& other) { return other.store == r.store; }) == &r;
}

std::vector<Cell> selected(const std::set<std::string>& targets, const std::vector<Faults>& faults,
                           bool defaults, std::vector<const Recipe*>& absent) {
  std::vector<Cell> cells;
  for (const Recipe& r : recipes()) {
    if (!targets.empty() && targets.count(std::string{r.name}) == 0) continue;
    if (defaults ? !is_first_of_store(r) : r.as_installed_only) continue;
    if (!test::missing(std::string{r.store}).empty()) {
      absent.push_back(&r);
      continue;
    }
    for (const Faults& f : faults)
      if (applies(r, f.first) && applies(r, f.midway)) cells.push_back({&r, f});
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
[[noreturn]] void unknown(const char* option, const std::string& name, const All& all) {
  std::set<std::string> known;
  for (const auto& one : all) known.emplace(one.name);
  test::wrong_options(
      fmt::format("{}: no '{}'; there are {}", option, name, fmt::join(known, " ")));
}

std::set<std::string> chosen_targets(const test::Options& o) {
  const auto given = words(o.text("--target", ""));
  for (const std::string& name : given)
    if (std::none_of(recipes().begin(), recipes().end(),
                     [&](const Recipe& r) { return r.name == name; }))
      unknown("--target", name, recipes());
  return given;
}

std::vector<Faults> chosen_faults(const test::Options& o) {
  std::vector<Faults> all;
  for (const std::string& name : words(o.text("--fault", o.has("--defaults") ? "none" : ""))) {
    const auto faults = parse_faults(name);
    if (!faults) unknown("--fault", name, all_faults());
    all.push_back(*faults);
  }
  if (all.empty())
    for (const FaultName& f : all_faults()) all.push_back({f.fault});
  return all;
}

void refuse_contradictions(const test::Options& o) {
  if (o.has("--budget") && o.has("--seconds"))
    test::wrong_options("--budget and --seconds exclude each other");
  const auto refuse = [&](const char* why, std::initializer_list<const char*> these) {
    for (const char* other : these)
      if (o.has(other)) test::wrong_options(fmt::format("{}, so no {}", why, other));
  };
  if (!o.has("--defaults")) refuse("the servers are not at their defaults", {"--all", "--ttl"});
  else
    refuse("each client of --defaults runs once",
           {"--budget", "--seconds", "--keys", "--clients", "--seed", "--grants"});
  if (o.has("--grants"))
    refuse("--grants has no faults", {"--fault", "--budget", "--seconds", "--keys", "--clients",
                                      "--seed", "--keep", "--list"});
}

// All at once.
std::vector<Row> run_at_defaults(const std::vector<Cell>& cells, const Terms& terms) {
  std::vector<std::future<std::vector<Row>>> under_way;
  for (const Cell& c : cells)
    under_way.push_back(
        std::async(std::launch::async, [&] { return run_cell(*c.recipe, c.faults, terms); }));
  std::vector<Row> all;
  for (auto& one : under_way)
    for (Row& row : one.get()) all.push_back(std::move(row));
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const test::Options o(argc, argv, {"--list", "--defaults", "--all"},
                        {"--target", "--fault", "--budget", "--seconds", "--keys", "--clients",
                         "--seed", "--json", "--keep", "--grants", "--ttl"});
  refuse_contradictions(o);
  std::vector<const Recipe*> absent;
  const auto targets = chosen_targets(o);
  const auto cells = selected(targets, chosen_faults(o), o.has("--defaults"), absent);
  if (o.has("--list")) {
    for (const Cell& c : cells) fmt::print("{} {}\n", c.recipe->name, c.faults.name());
    return 0;
  }
  for (const Recipe* r : absent) fmt::print("{}: not run, no server installed\n", r->name);
  if (cells.empty()) {
    if (!absent.empty()) return test::without(test::missing(std::string{absent.front()->store}));
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
              .keep = o.text("--keep", ""),
              .defaults = o.has("--defaults"),
              .all_kinds = o.has("--all"),
              .ttl = static_cast<int>(o.number("--ttl", 0))};
  if (terms.keys < 1 || terms.keys > Arena::most_keys)
    test::wrong_options(fmt::format("--keys: 1 to {}", Arena::most_keys));
  test::clean_environment();

  std::vector<Row> rows;
  const auto report = [&](Row row) {
    fmt::print("{}", line(row));
    std::fflush(stdout);
    rows.push_back(std::move(row));
  };
  if (!o.has("--grants") && !terms.defaults)
    fmt::print(stderr, "{} cells, up to about {:.0f} minutes\n", cells.size(),
               static_cast<double>(cells.size()) * (terms.seconds + around) / 60 + 1);
  fmt::print("{}", head());
  if (const auto grants = static_cast<std::size_t>(o.number("--grants", 0)); grants != 0) {
    for (const Recipe& r : recipes())
      if (!r.as_installed_only && test::missing(std::string{r.store}).empty() &&
          (targets.empty() || targets.count(std::string{r.name}) != 0))
        report(run_grants(r, grants * r.share / 1000));
  } else if (terms.defaults) {
    for (Row& row : run_at_defaults(cells, terms)) report(std::move(row));
  } else {
    for (const Cell& c : cells) report(run_cell(*c.recipe, c.faults, terms).front());
  }
  fmt::print("{}", sum(rows));
  if (results.is_open() && !(results << json(rows) << std::endl))
    test::give_up("--json " + o.text("--json", "") + ": not written");
  const bool broken =
      std::any_of(rows.begin(), rows.end(), [](const Row& r) { return !r.broken.empty(); });
  return broken ? 1 : 0;
}
