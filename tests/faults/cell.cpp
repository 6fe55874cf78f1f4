// SPDX-License-Identifier: Apache-2.0
#include "cell.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include "support/process.hpp"
#include "support/server.hpp"

namespace dlock::faults {
namespace {

constexpr const char* mark = "DLOCK_TEST_FAULT_CELL";

// Every key is granted once, which may take a store's grace.
void warm_up(const Arena& arena, std::size_t keys) {
  const double until = test::boot_now() + 30;
  for (std::size_t k = 0; k < keys; ++k)
    while (arena.resources[k].fenced() == 0 && test::boot_now() < until) ::usleep(2000);
}

// Keys that are judged together.
struct Group {
  std::string name;
  test::Kind kind;
  std::vector<std::size_t> keys;
};

// At defaults the queues are in the first half of the keys, which is harmed.
std::vector<Group> groups_of(const Recipe& recipe, const Terms& terms, const test::Store& store) {
  if (!terms.defaults) {
    Group all{std::string{recipe.name},
              {std::string{recipe.recipe}, {}, {}, recipe.ordered},
              std::vector<std::size_t>(terms.keys)};
    for (std::size_t k = 0; k < terms.keys; ++k) all.keys[k] = k;
    return {all};
  }
  auto kinds = store.kinds();
  if (!terms.all_kinds) kinds.resize(1);
  std::vector<Group> all;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    all.push_back(
        {fmt::format("{} {}", recipe.store, kinds[i].name()), kinds[i], {i, kinds.size() + i}});
  return all;
}

std::vector<KeyWork> work_of(const std::vector<Group>& groups, const Terms& terms, int ttl) {
  std::vector<KeyWork> all;
  if (terms.defaults) {
    for (const Group& g : groups) all.push_back({g.kind, 3, 0});
    for (const Group& g : groups) all.push_back({g.kind, 1, 3 * ttl * 1000});
  } else {
    all.assign(terms.keys, {groups.front().kind, terms.clients_per_key, terms.job_ms});
  }
  return all;
}

void keep_traces(const std::string& to, const std::vector<std::string>& traces) {
  std::filesystem::create_directories(to);
  for (const std::string& file : traces) {
    std::error_code ignored;
    std::filesystem::copy_file(file, to + file.substr(file.rfind('/')),
                               std::filesystem::copy_options::overwrite_existing, ignored);
  }
}

}  // namespace

std::vector<Row> run_cell(const Recipe& recipe, Faults faults, const Terms& terms) {
  // In memory: what jobs note all the time must not slow down a server that syncs its disk.
  const test::TempDir directory(test::data_place(false));
  const std::string arena_path = directory / "arena";
  Arena& arena = Arena::map(arena_path, true);
  test::ClockFile clock;
  const auto target = make_target(recipe, faults.first, terms.defaults);
  const double began = test::boot_now();
  const int ttl = terms.ttl > 0 ? terms.ttl : terms.defaults ? target->least_ttl() : recipe.ttl;
  const auto groups = groups_of(recipe, terms, *target);
  Work work{.dlock = terms.dlock,
            .job = terms.job,
            .url = target->url(),
            .ttl = ttl,
            .keys = work_of(groups, terms, ttl),
            .queue = terms.defaults,
            .directory = directory / ".",
            .arena = arena_path,
            .env = {{mark, arena_path}}};
  const std::size_t keys = work.keys.size();
  if (faults.first == Fault::client_clock) {
    work.env.emplace_back("LD_PRELOAD", CLOCK_SHIFT);
    work.env.emplace_back("CLOCK_SHIFT_FILE", clock.path());
  }
  if (faults.first == Fault::kill_guard) work.expected = {"exit 125"};  // as dlock(1) says
  if (terms.defaults)
    for (std::size_t k = 0; k < groups.size(); ++k) arena.resources[k].hold = true;
  Clients clients(work);
  const Fd operators_words{
      ::open((directory / "operator").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  const auto remove = [&](std::size_t key, std::uint64_t token) {
    test::Process::start({.argv = {terms.dlock, "release", "-q", "-b", work.url, "--recipe",
                                   work.keys[key].kind.recipe, "--force", "--token",
                                   std::to_string(token), "--key", fmt::format("fault-{}", key)},
                          .fds = {{1, operators_words.get()}, {2, operators_words.get()}}})
        .wait(60);
  };
  Nemesis nemesis(
      {recipe, faults, ttl, terms.defaults, *target, clients, arena, keys, clock, remove},
      terms.seed);
  if (terms.defaults) {
    nemesis.round();
  } else {
    warm_up(arena, keys);
    for (const double until = test::boot_now() + terms.seconds; test::boot_now() < until;)
      nemesis.round();
  }
  clients.stop();

  std::vector<std::string> left;
  for (const pid_t pid : test::carriers_after(mark, arena_path, 60))
    left.push_back(fmt::format("process {}", pid));
  std::vector<Row> rows;
  for (const Group& g : groups) {
    Evidence evidence{g.name,         recipe, faults,
                      arena,          g.keys, g.kind.ordered,
                      terms.defaults, left,   nemesis.injected()};
    for (const std::size_t k : g.keys)
      for (std::string& file : clients.traces(k)) evidence.traces.push_back(std::move(file));
    for (const End& end : clients.ends())
      if (evidence.has(static_cast<int>(end.key))) evidence.ends.push_back(end);
    Row row = judge(evidence);
    row.seconds = test::boot_now() - began;
    row.missed = nemesis.missed();
    if (terms.defaults && row.missed != 0)
      row.broken.push_back("a job did not start, or a waiter did not wait\n");
    row.statuses = clients.statuses();
    if (!row.broken.empty() && !terms.keep.empty())
      keep_traces(fmt::format("{}/{}-{}", terms.keep, g.name, faults.name()), evidence.traces);
    rows.push_back(std::move(row));
  }
  Arena::unmap(arena);
  return rows;
}

}  // namespace dlock::faults
