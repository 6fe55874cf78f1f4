// SPDX-License-Identifier: Apache-2.0
// Jobs that run, and waiters that wait, three times as long as their ttl, on a store with its
// defaults: `defaults STORE SCHEDULE[,...] [--ttl SECONDS] [--all|--one]`. Schedules run side by
// side, each on servers of its own (schedule.cpp). In `hold` every recipe and mode, side by side,
// so that it takes little more than three times the ttl; in others the default recipe alone, or
// --all;
// --one: the default recipe alone. Program: $DLOCK.
#include <fmt/format.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <sstream>
#include <thread>
#include "cell.hpp"
#include "schedule.hpp"
#include "support/options.hpp"
#include "support/server.hpp"

using namespace dlock::test;
using namespace std::chrono_literals;

namespace {

struct Terms {
  std::string store;
  std::chrono::seconds ttl;  // 0: the least of the store
  bool all, one;
};

// One schedule on servers of its own: what is to be printed, and what is wrong.
struct Played {
  std::string report;
  std::vector<std::string> wrong;
};

Played play(const Schedule& schedule, const Terms& terms) {
  const auto store = make_store(terms.store);
  const auto ttl = terms.ttl == 0s ? std::chrono::seconds{store->least_ttl()} : terms.ttl;
  const TestDirectory directory;
  std::vector<std::unique_ptr<Cell>> cells;
  auto kinds = store->kinds();
  if (terms.one || (schedule.name != "hold" && !terms.all)) kinds.resize(1);
  for (const Kind& kind : kinds)
    cells.push_back(std::make_unique<Cell>(kind, static_cast<int>(ttl.count()), store->url(),
                                           fmt::format("{}/{}", directory.path(), cells.size())));
  // Redis grants nothing in its first minute: all wait for it at once
  std::vector<std::thread> begins;
  for (const auto& cell : cells) begins.emplace_back([&] { cell->begin(); });
  for (std::thread& t : begins) t.join();

  schedule.play({*store, cells, 3 * ttl});
  std::this_thread::sleep_for(3 * ttl);
  for (const auto& cell : cells) cell->end_holder();
  Played played;
  for (const auto& cell : cells)
    played.report +=
        fmt::format("{}: {}\n", schedule.name, cell->finish(schedule.excuses, played.wrong));
  for (const std::string& w : played.wrong)
    played.report += fmt::format("WRONG: {}: {}\n", schedule.name, w);
  return played;
}

std::vector<const Schedule*> schedules(const std::string& names) {
  std::vector<const Schedule*> all;
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',');) all.push_back(&schedule(name));
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) give_up("usage: defaults STORE SCHEDULE[,...] [--ttl SECONDS] [--all|--one]");
  const Options o(argc - 2, argv + 2, {"--all", "--one"}, {"--ttl"});
  if (!std::getenv("DLOCK")) give_up("DLOCK is not set");
  ::signal(SIGPIPE, SIG_IGN);
  const Terms terms{argv[1], std::chrono::seconds{o.number("--ttl", 0)}, o.has("--all"),
                    o.has("--one")};
  if (const std::string program = missing(terms.store); !program.empty()) return without(program);
  std::vector<std::future<Played>> under_way;
  for (const Schedule* s : schedules(argv[2]))
    under_way.push_back(std::async(std::launch::async, [s, &terms] { return play(*s, terms); }));
  bool good = true;
  for (auto& one : under_way) {
    const Played played = one.get();
    fmt::print("{}", played.report);
    good &= played.wrong.empty();
  }
  return good ? 0 : 1;
}
