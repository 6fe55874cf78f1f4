// SPDX-License-Identifier: Apache-2.0
// Promise G1: whatever happens to dlock, its guard or its backend, every member of the job is dead
// before the deadline; on `file`, which has none, the lock is not granted to another while a member
// lives.
//
//   kill_matrix [--full] [--runs N] [--busy N] [--parallel N] [--only TEXT] [--seed N]
//   [--without-cgroup]
//   kill_matrix --slack [--runs N] [--busy N] [--parallel N] [--seed N]
//   kill_matrix --pairs [--full] [--runs N] [--parallel N] [--only TEXT]
//
// Each cell of the matrix runs N resisting trees (default 2, --full 10), several at once, with busy
// processes beside them. Where the guard may write a cgroup it ends the job with that;
// --without-cgroup hides it, so that the sweep alone has to do. The programs come from $DLOCK,
// $DLOCK_FAKE and $RESISTING_TREE.
//
// --pairs: dlock, its guard or both are stopped or killed, in either order, on a file and on Redis:
// no member outlives the lock but where dlock-backends(7) says so (*).
//
// --slack: only what makes the guard kill at its last moment, and how much time is left then: of
// 200 trees and more, 99 % are dead 100 ms before the deadline. Beside busy processes that is exact
// only where this program may take a real-time priority, as root may. $STORE_PROGRAM starts the
// server that is frozen; where none is installed those cells are left out.
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include "fixture.hpp"
#include "support/options.hpp"
#include "support/process.hpp"
#include "tree_run.hpp"

using namespace dlock::test;

namespace {

// the leader ignores TERM, so it dies of KILL, and dlock ends with the same signal
const std::string killed = "signal 9 (KILL)";
const std::string lost = "exit 123", failed = "exit 125";

const std::vector<Cell> cells{
    {"lease: TERM dlock", "", Fault::term, false, {killed}},
    {"lease: KILL dlock", "", Fault::kill, false, {killed}},
    // at once, not when the lease ends
    {"lease of 30 s: KILL dlock", "", Fault::kill, false, {killed}, 30},
    {"lease: STOP dlock", "", Fault::stop, false, {lost}},
    {"lease: KILL guard", "", Fault::kill_guard, false, {failed}},
    {"lease: STOP guard, TERM dlock", "", Fault::stop_guard_term, false, {failed}},
    {"lease: backend hangs", "hang_after=1", Fault::backend, false, {lost}},
    {"lease: backend hangs, STOP guard", "hang_after=1", Fault::stop_guard, false, {lost, failed}},
    {"lease: backend throws", "throw_after=1", Fault::backend, false, {lost}},
    {"lease: renewals fail", "renew_fails_after=1", Fault::backend, false, {lost}},
    {"lease: lost to another", "lost_after=1", Fault::backend, false, {lost}},
    // lost is a latch
    {"lease: renewed after TERM", "drip=2300ms", Fault::backend, false, {lost}, 5},
    {"lease: KILL outer of two", "", Fault::kill_outer, false, {killed}},
    {"lease, tty: TERM dlock", "", Fault::term, true, {killed}},
    {"lease, tty: KILL dlock", "", Fault::kill, true, {killed}},
    {"lease, tty: STOP dlock", "", Fault::stop, true, {lost}},
    {"lease, tty: KILL guard", "", Fault::kill_guard, true, {failed}},
    {"lease, tty: backend hangs", "hang_after=1", Fault::backend, true, {lost}},
    {"file: TERM dlock", "file", Fault::term, false, {killed}},
    {"file: KILL dlock", "file", Fault::kill, false, {killed}},
    {"file: STOP dlock, CONT, TERM", "file", Fault::stop, false, {killed}},
    {"file: KILL guard", "file", Fault::kill_guard, false, {failed}},
    {"file: STOP guard, TERM dlock", "file", Fault::stop_guard_term, false, {failed}},
    {"file: KILL dlock, guard is frozen", "file", Fault::kill_frozen, false, {killed}},
    {"flock: KILL dlock, guard is frozen",
     "file?recipe=flock",
     Fault::kill_frozen,
     false,
     {killed}},
    {"flock: KILL guard", "file?recipe=flock", Fault::kill_guard, false, {failed}},
    {"file, tty: KILL dlock", "file", Fault::kill, true, {killed}},
};

const std::vector<Cell> last_moments{
    {"lease: STOP dlock", "", Fault::stop, false, {lost}},
    {"lease: backend hangs", "hang_after=1", Fault::backend, false, {lost}},
    {"redis: STOP dlock", "redis", Fault::stop, false, {lost}},
    {"redis: server frozen", "redis", Fault::freeze, false, {lost}},
};

// The rows of NOT COVERED in dlock-backends(7).
bool may_survive(bool leased, const Hit& first, const Hit& second) {
  // no process is left that could end the tree, or hold a descriptor
  if (first.signal == SIGKILL && second.signal == SIGKILL) return true;
  if (!leased) return false;  // a stopped process keeps its descriptors, and the lock
  // The death of dlock continues a guard that was stopped before.
  return !(first.signal == SIGSTOP && first.target == Target::guard && second.signal == SIGKILL);
}

std::string name_of(const Hit& h) {
  return std::string(h.signal == SIGSTOP ? "STOP " : "KILL ") +
         (h.target == Target::dlock ? "dlock" : "guard");
}

// full: with each pause between the two.
std::vector<Cell> pairs(bool full) {
  const Hit hits[] = {{SIGSTOP, Target::dlock},
                      {SIGKILL, Target::dlock},
                      {SIGSTOP, Target::guard},
                      {SIGKILL, Target::guard}};
  std::vector<Cell> all;
  for (const char* store : {"file", "redis"}) {
    // the shortest ttl that `run` accepts without ?short_ttl=yes
    const Cell one{store, store, Fault::hits, false, {}, 2};
    for (const Hit& first : hits) {
      all.push_back(one);
      all.back().name += ": " + name_of(first);
      all.back().hits = {first};
      for (const Hit& second : hits)
        for (const int gap : {0, 2, 20}) {
          if (first.target == second.target || !(full || gap == 2)) continue;
          Cell& c = all.emplace_back(one);
          c.hits = {first, second};
          c.gap_ms = gap;
          c.may_survive = may_survive(c.leased(), first, second);
          c.name += ": " + name_of(first) +
                    (gap > 0 ? ", " + std::to_string(gap) + " ms, " : ", ") + name_of(second) +
                    (c.may_survive ? " *" : "");
        }
    }
  }
  return all;
}

// What has to be left of the margin on a busy machine, in seconds.
constexpr double wanted_slack = 0.1;

std::string milliseconds(std::optional<double> seconds) {
  if (!seconds) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", *seconds * 1000);
  return text;
}

std::string spread(std::vector<double> values) {
  if (values.empty()) return "-";
  std::sort(values.begin(), values.end());
  return milliseconds(values.front()) + " / " + milliseconds(values[values.size() / 2]) + " / " +
         milliseconds(values.back());
}

// The least, and the one that 99 of 100 are not below.
std::string least_slack(std::vector<double>& values) {
  if (values.empty()) return "-";
  std::sort(values.begin(), values.end());
  return milliseconds(values.front()) + " / " + milliseconds(values[(values.size() - 1) / 100]);
}

// True when every run kept its promise.
bool print_cell(const Cell& cell, const std::vector<Seen>& runs) {
  std::vector<double> dead, slack;
  std::size_t survivors = 0;
  std::string ends;
  bool good = true;
  for (const Seen& s : runs) {
    survivors += s.survivors;
    good = good && s.wrong.empty();
    if (s.dead_after) dead.push_back(*s.dead_after);
    if (s.slack) slack.push_back(*s.slack);
    if (ends.find(s.end) == ends.npos) ends += (ends.empty() ? "" : ", ") + s.end;
  }
  std::printf("| %-34s | %4zu | %9zu | %-25s | %15s | %s |%s\n", cell.name.c_str(), runs.size(),
              survivors, spread(dead).c_str(), least_slack(slack).c_str(), ends.c_str(),
              good ? "" : " FAILED");
  return good;
}

using Results = std::vector<std::pair<const Cell*, std::vector<Seen>>>;

// Of all cells together. One in a hundred cannot be judged by a few trees.
bool print_slack(const Results& results) {
  std::vector<double> all;
  for (const auto& [cell, seen] : results)
    for (const Seen& s : seen)
      if (s.slack) all.push_back(*s.slack);
  std::printf("\nslack of %zu trees: %s ms\n", all.size(), least_slack(all).c_str());
  return all.size() < 200 || all[(all.size() - 1) / 100] >= wanted_slack;
}

// In a mount namespace of its own, so it needs root; other users usually have no writable cgroup
// anyway.
void hide_cgroups() {
  if (::geteuid() != 0) return;
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    give_up(std::string("a mount namespace: ") + std::strerror(errno));
  for (const char* at : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) ::umount2(at, MNT_DETACH);
}

std::vector<Process> start_busy(long n) {
  std::vector<Process> busy;
  for (long i = 0; i < n; ++i)
    busy.push_back(Process::start({.argv = {"sh", "-c", "while :; do :; done"}}));
  return busy;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o(argc, argv, {"--full", "--pairs", "--slack", "--without-cgroup"},
                  {"--runs", "--busy", "--parallel", "--only", "--seed"});
  const Programs programs{program_from("DLOCK"), program_from("DLOCK_FAKE"),
                          program_from("RESISTING_TREE")};
  const bool full = o.has("--full"), both = o.has("--pairs");
  const long runs = o.number("--runs", both ? (full ? 3 : 1) : full ? 10 : 2);
  const unsigned long seed =
      static_cast<unsigned long>(o.number("--seed", long(std::random_device{}() >> 1)));
  clean_environment();
  if (o.has("--without-cgroup")) hide_cgroups();
  // processes left by a killed dlock become children of this program, which kills them
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);

  bool redis = false;
  if (o.has("--slack") || both) {
    const TempDir dir;
    redis = start_fixture("redis", dir / "server").has_value();
    if (!redis) std::printf("SKIPPED: no server of redis\n");
  }
  const auto rows = o.has("--slack") ? last_moments : both ? pairs(full) : cells;
  Results results;
  for (const Cell& c : rows)
    if (c.name.find(o.text("--only", "")) != std::string::npos && (redis || !c.on_server()))
      results.emplace_back(&c, std::vector<Seen>{});
  if (results.empty()) give_up("no cell has that name");

  const auto busy = start_busy(o.number("--busy", 0));
  std::mt19937_64 random(seed);
  std::mutex mutex;
  std::size_t next = 0;
  const std::size_t total = results.size() * std::size_t(runs);
  const auto work = [&] {
    for (std::unique_lock lock(mutex); next < total;) {
      // a round over all cells, then the next round
      auto& [cell, seen] = results[next % results.size()];
      const double ttl = (o.has("--slack") ? 4 : 2) + double(next / results.size() % 4);
      const bool at_once = cell->fault == Fault::backend || cell->fault == Fault::stop_guard ||
                           cell->fault == Fault::hits;
      const double jitter = at_once ? 0 : std::uniform_real_distribution<>(0, ttl / 3)(random);
      ++next;
      lock.unlock();
      Seen s = run_tree(programs, *cell, ttl, jitter);
      lock.lock();
      for (const auto& what : s.wrong)
        std::fprintf(stderr, "%s (ttl %.0f s): %s\n", cell->name.c_str(), ttl, what.c_str());
      seen.push_back(std::move(s));
    }
  };
  std::vector<std::thread> threads;
  for (long i = 0; i < o.number("--parallel", 8); ++i) threads.emplace_back(work);
  for (auto& t : threads) t.join();

  std::printf("seed %lu, %zu trees, %zu busy processes%s\n\n", seed, total, busy.size(),
              o.has("--without-cgroup") ? ", no cgroup" : "");
  std::printf(
      "milliseconds from the fault to the death of the last member, least, median and most; slack: "
      "from there to the "
      "deadline, least and first percentile\n\n");
  std::printf(
      "| %-34s | runs | survivors | %-25s | slack           | dlock ended "
      "|\n|---|---|---|---|---|---|\n",
      "case", "dead after");
  bool good = true;
  for (const auto& [cell, seen] : results) good = print_cell(*cell, seen) && good;
  if (o.has("--slack")) good = print_slack(results) && good;
  std::printf("\n%s\n", !good  ? "FAILED"
                        : both ? "no member outlived the lock except where the manual says so"
                               : "every tree was dead in time");
  return good ? 0 : 1;
}
