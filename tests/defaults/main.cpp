// SPDX-License-Identifier: Apache-2.0
// Jobs that run, and waiters that wait, three times as long as their ttl, on a store with its
// defaults: `defaults STORE hold|frozen|restarted [--ttl SECONDS] [--all|--one]`. Every recipe and
// mode, side by side, so that it takes little more than three times the ttl; in frozen and
// restarted the default recipe alone, or --all; --one: the default recipe alone. Program: $DLOCK.
#include <fmt/format.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include "cell.hpp"
#include "support/options.hpp"
#include "support/server.hpp"

using namespace dlock::test;

namespace {

// As lines of the trace, for the checker: order and times near a fault are not judged.
void tell_fault(const std::vector<std::string>& directories, const char* name, const char* phase) {
  for (const std::string& d : directories)
    std::ofstream{d + "/faults", std::ios::app}
        << fmt::format(R"({{"t":{},"ev":"fault","name":"{}","phase":"{}"}})",
                       static_cast<long long>(boot_now() * 1e9), name, phase)
        << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    give_up("usage: defaults STORE hold|frozen|restarted [--ttl SECONDS] [--all|--one]");
  const Options o(argc - 2, argv + 2, {"--all", "--one"}, {"--ttl"});
  const std::string store_name = argv[1], phase = argv[2];
  if (!std::getenv("DLOCK")) give_up("DLOCK is not set");
  ::signal(SIGPIPE, SIG_IGN);
  const auto store = make_store(store_name);
  if (!store) return fmt::print("{}: its server is not installed\n", store_name), 77;
  const int ttl = static_cast<int>(o.number("--ttl", store->least_ttl()));
  const auto three = 3 * std::chrono::seconds{ttl};

  const TestDirectory directory;
  std::vector<std::string> directories;
  std::vector<std::unique_ptr<Cell>> cells;
  auto kinds = store->kinds();
  if (o.has("--one") || (phase != "hold" && !o.has("--all"))) kinds.resize(1);
  for (const Kind& kind : kinds) {
    directories.push_back(fmt::format("{}/{}", directory.path(), cells.size()));
    cells.push_back(std::make_unique<Cell>(kind, ttl, store->url(), directories.back()));
    std::ofstream{directories.back() + "/faults"};
  }
  // Redis grants nothing in its first minute: all wait for it at once
  std::vector<std::thread> begins;
  for (const auto& cell : cells) begins.emplace_back([&] { cell->begin(); });
  for (std::thread& t : begins) t.join();

  const bool fault = phase != "hold";
  if (phase == "frozen") {
    tell_fault(directories, "frozen", "begin");
    store->freeze();
    std::this_thread::sleep_for(three / 2);  // longer than any lease
    store->thaw();
    tell_fault(directories, "frozen", "end");
  } else if (phase == "restarted") {
    tell_fault(directories, "restarted", "begin");
    store->restart();
    tell_fault(directories, "restarted", "end");
  } else if (phase != "hold") {
    give_up(phase + ": no such phase");
  }
  std::this_thread::sleep_for(three);
  for (const auto& cell : cells) cell->end_holder();

  std::vector<std::string> wrong;
  for (const auto& cell : cells) fmt::print("{}\n", cell->finish(fault, wrong));
  for (const std::string& w : wrong) fmt::print("WRONG: {}\n", w);
  return wrong.empty() ? 0 : 1;
}
