// SPDX-License-Identifier: Apache-2.0
// Injects faults in rounds: jobs that stay are waited for, the fault begins, lasts and ends, the
// jobs may go, and for a while nothing is wrong. To a queue, a single time: its jobs may go only
// three times the ttl after the fault.
#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>
#include "arena.hpp"
#include "clients.hpp"
#include "support/clock_file.hpp"
#include "target.hpp"

namespace dlock::faults {

struct Injection {
  std::string name;
  std::int64_t begin = 0, end = 0;  // nanoseconds of CLOCK_BOOTTIME
  pid_t pid = 0;                    // the dlock that was killed or stopped; 0: none
  int key = -1;                     // -1: all
  bool killed = false, stopped = false, fenced_only = false;
  bool holder = false;  // and not a waiter
};

class Nemesis {
 public:
  struct Subject {
    const Recipe& recipe;
    Faults faults;
    int ttl;
    bool queue;  // of each client that runs once
    test::Store& target;
    Clients& clients;
    Arena& arena;
    std::size_t keys;        // those of the second half are only judged
    test::ClockFile& clock;  // of every dlock
    // an operator's release --force
    std::function<void(std::size_t key, std::uint64_t token)> remove;
  };
  Nemesis(Subject, unsigned seed);
  void round();
  const std::vector<Injection>& injected() const { return injected_; }
  std::size_t missed() const { return missed_; }  // no job to do it to came in time

 private:
  struct Victim {
    std::size_t key;
    const Slot* slot;
    pid_t dlock, guard, job;
  };
  std::vector<Victim> hold(std::size_t keys);
  std::size_t harmed() const;
  void let_go();
  void wait_dead(const std::vector<Victim>&, double seconds) const;
  std::size_t begin(Fault, pid_t pid = 0, int key = -1);
  void end(std::size_t first);
  void hit(Fault, const std::vector<Victim>&);
  void to_holders(Fault, const std::vector<Victim>&);
  void to_waiters(Fault, const std::vector<Victim>&);
  void to_network();
  void to_servers(const std::vector<Victim>&);
  void to_records(const std::vector<Victim>&);
  void longer_than_a_lease() const;
  bool is_covered() const;
  void sleep(double seconds) const;

  Subject s_;
  std::minstd_rand random_;
  std::vector<Injection> injected_;
  std::size_t missed_ = 0;
};

}  // namespace dlock::faults
