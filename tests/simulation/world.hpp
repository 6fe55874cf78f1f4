// SPDX-License-Identifier: Apache-2.0
// A simulated time, what is due in it, and the machines of the clients. One thread; nothing here
// waits. The order of everything is determined by the Scenario and the Schedule.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>
#include "simulation/fiber.hpp"
#include "simulation/schedule.hpp"

namespace dlock::simulation {

class FileSystem;
class Process;

// CLOCK_BOOTTIME of a client's machine: runs a little faster or slower than the store's clock, and
// goes on while the machine sleeps.
struct Machine {
  Nanos started = 0;
  std::int64_t ppm = 0;
  bool asleep = false;
  Nanos slept = 0;  // in all

  Nanos clock(Nanos now) const noexcept { return started + now + now / 1000 * ppm / 1000; }
  // the earliest moment at which the clock shows this
  Nanos when(Nanos shown) const noexcept;
};

struct SessionSlot {
  Nanos at;
  std::string who, what;
};

class World {
 public:
  // No fault comes after `faults_until`. `told`: the story is written down.
  World(Schedule& schedule, std::uint64_t seed, Nanos faults_until, Stacks& for_threads, bool told)
      : stacks(for_threads),
        dice(seed),
        schedule_(schedule),
        faults_until_(faults_until),
        told_(told) {}

  Nanos now() const noexcept { return now_; }
  // `tag`: what will happen, for the comparison of states.
  void at(Nanos when, std::uint64_t tag, std::function<void()> what);
  void after(Nanos span, std::uint64_t tag, std::function<void()> what) {
    at(now_ + span, tag, std::move(what));
  }
  // Until nothing is due, `done` says so, or an invariant is broken.
  void run(const std::function<bool()>& done, Nanos until);

  Fault ask(Point);
  bool faults_may_come() const noexcept { return now_ < faults_until_; }
  const std::vector<Decision>& decisions() const noexcept { return decisions_; }
  Nanos last_fault_over() const noexcept { return last_fault_over_; }
  void fault_lasts_until(Nanos t) noexcept { last_fault_over_ = std::max(last_fault_over_, t); }

  bool told() const noexcept { return told_; }
  void say(std::string who, std::string what);
  const std::vector<SessionSlot>& story() const noexcept { return story_; }

  // The first broken invariant ends the simulation.
  void broken(std::string invariant);
  const std::optional<std::string>& what_broke() const noexcept { return broken_; }

  // For exhaustive search: called at each point, before the schedule is asked; ends the simulation
  // by returning false.
  std::function<bool(std::uint64_t number, Point)> on_point;
  std::uint64_t due_hash() const noexcept;  // of what is due, without its order
  bool cut_short() const noexcept { return cut_short_; }

  Stacks& stacks;
  Dice dice;             // for what is no fault: latencies, ids
  bool uniform = false;  // every latency is the same
  Nanos latency() noexcept;

  // Of the one machine that all clients run on, if the lock is in files.
  FileSystem* files = nullptr;
  std::function<void(const Fault&)> disk_fails;
  std::vector<Process*> processes;

  // The process that is making system calls; nullptr: the simulation itself.
  Process* active = nullptr;
  static World*& current() noexcept;  // of this thread

 private:
  struct Due {
    std::uint64_t tag;
    std::function<void()> what;
  };
  Nanos now_ = 0;
  std::uint64_t made_ = 0;
  std::map<std::pair<Nanos, std::uint64_t>, Due> due_;
  Schedule& schedule_;
  Nanos faults_until_, last_fault_over_ = 0;
  std::uint64_t points_ = 0;
  std::vector<Decision> decisions_;
  bool told_, cut_short_ = false;
  std::vector<SessionSlot> story_;
  std::optional<std::string> broken_;
};

constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept { return scrambled(a, b); }
std::uint64_t hash_of(std::string_view) noexcept;

}  // namespace dlock::simulation
