// SPDX-License-Identifier: Apache-2.0
#include "cell.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <filesystem>
#include "support/process.hpp"

namespace dlock::faults {
namespace {

constexpr const char* mark = "DLOCK_TEST_FAULT_CELL";

// Every key is granted once, which may take a store's grace.
void warm_up(const Arena& arena, std::size_t keys) {
  const double until = test::boot_now() + 30;
  for (std::size_t k = 0; k < keys; ++k)
    while (arena.resources[k].fenced() == 0 && test::boot_now() < until) ::usleep(2000);
}

}  // namespace

Row run_cell(const Recipe& recipe, Fault fault, const Terms& terms) {
  const test::TempDir directory;
  const std::string arena_path = directory / "arena";
  Arena& arena = Arena::map(arena_path, true);
  test::ClockFile clock;
  const auto target = make_target(recipe, fault);
  const double began = test::boot_now();
  Work work{.dlock = terms.dlock,
            .job = terms.job,
            .url = target->url(),
            .recipe = std::string{recipe.recipe},
            .ttl = recipe.ttl,
            .keys = terms.keys,
            .clients_per_key = terms.clients_per_key,
            .job_ms = terms.job_ms,
            .directory = directory / ".",
            .arena = arena_path,
            .env = {{mark, arena_path}}};
  if (fault == Fault::client_clock) {
    work.env.emplace_back("LD_PRELOAD", CLOCK_SHIFT);
    work.env.emplace_back("CLOCK_SHIFT_FILE", clock.path());
  }
  if (fault == Fault::kill_guard) work.expected = {"exit 125"};  // as dlock(1) says
  Clients clients(work);
  const Fd operators_words{
      ::open((directory / "operator").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  const auto remove = [&](std::size_t key, std::uint64_t token) {
    test::Process::start(
        {.argv = {terms.dlock, "release", "-q", "-b", work.url, "--recipe", work.recipe, "--force",
                  "--token", std::to_string(token), "--key", fmt::format("fault-{}", key)},
         .fds = {{1, operators_words.get()}, {2, operators_words.get()}}})
        .wait(60);
  };
  Nemesis nemesis({recipe, fault, *target, clients, arena, terms.keys, clock, remove}, terms.seed);
  warm_up(arena, terms.keys);
  for (const double until = test::boot_now() + terms.seconds; test::boot_now() < until;)
    nemesis.round();
  clients.stop();

  Evidence evidence{recipe, fault, arena, terms.keys, nemesis.injected(), clients.traces(), {}};
  for (const pid_t pid : test::carriers_after(mark, arena_path, 60))
    evidence.left.push_back(fmt::format("process {}", pid));
  Row row = judge(evidence);
  row.seconds = test::boot_now() - began;
  row.missed = nemesis.missed();
  row.statuses = clients.statuses();
  if (!clients.last_words().empty())
    row.broken.push_back("dlock ended with " + clients.last_words() + "\n");
  if (!row.broken.empty() && !terms.keep.empty()) {
    const std::string to = fmt::format("{}/{}-{}", terms.keep, recipe.name, name_of(fault));
    std::filesystem::create_directories(to);
    for (const std::string& file : evidence.traces) {
      std::error_code ignored;
      std::filesystem::copy_file(file, to + file.substr(file.rfind('/')),
                                 std::filesystem::copy_options::overwrite_existing, ignored);
    }
  }
  Arena::unmap(arena);
  return row;
}

}  // namespace dlock::faults
