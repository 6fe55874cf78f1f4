// SPDX-License-Identifier: Apache-2.0
// One resisting tree under one `dlock run`, and one fault.
#pragma once
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::test {

enum class Fault {
  backend,          // by a fault item of the fake backend
  term,             // TERM to dlock
  kill,             // KILL to dlock
  stop,             // STOP to dlock; CONT once the tree is dead (file: once it has been seen alive)
  kill_guard,       // KILL to the guard
  stop_guard_term,  // STOP to the guard, TERM to dlock
  stop_guard,       // STOP to the guard; with a fault of the backend
  // the guard is frozen, KILL to dlock; the guard goes on once the tree has been seen alive
  kill_frozen,
  kill_outer,  // two dlocks, one inside the other; KILL to the outer one
  freeze,      // STOP to the server, for good
  hits,        // as the cell says, while a second contender waits
};

enum class Target { dlock, guard };
struct Hit {
  int signal;  // SIGSTOP or SIGKILL
  Target target;
};

struct Cell {
  std::string name;
  // "file" and query items; "redis": a server of its own; else the fault items of a fake lease
  const char* backend;
  Fault fault;
  bool terminal;                  // in a pty, so the job is in dlock's group
  std::vector<std::string> ends;  // how dlock may end
  double ttl = 0;                 // seconds; 0: the default of the run
  std::vector<Hit> hits = {};
  int gap_ms = 0;  // between them
  bool may_survive =
      false;  // the tree outlives the lock: a row of NOT COVERED in dlock-backends(7)
  bool leased() const { return std::string_view(backend).substr(0, 4) != "file"; }
  bool on_server() const { return std::string_view(backend) == "redis"; }
};

struct Programs {
  std::string dlock, dlock_fake, tree;
};

struct Seen {
  std::vector<std::string> wrong;  // empty: every promise was kept
  // members of the tree alive when dlock reported it dead, or after the bound; under Fault::hits,
  // when the second contender was granted
  std::size_t survivors = 0;
  std::optional<double> dead_after;  // seconds from the fault to the death of the last member
  std::optional<double> slack;       // seconds from there to the deadline
  std::string end;                   // how dlock ended
};

// `ttl` (unless the cell has its own) and `jitter` (the time before the fault) in seconds.
Seen run_tree(const Programs&, const Cell&, double ttl, double jitter);

}  // namespace dlock::test
