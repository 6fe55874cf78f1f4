// SPDX-License-Identifier: Apache-2.0
// The faults, by the names of the table that fault_runner prints.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::faults {

enum class Fault {
  none,
  kill_dlock,    // F1
  kill_guard,    // F1, the guard
  kill_both,     // dlock and guard
  stop_dlock,    // F2, longer than the ttl
  stop_guard,    // the guard alone, longer than the ttl
  stop_both,     // dlock and guard stopped, the job runs on
  freeze_all,    // F3: dlock, guard and job
  kill_waiter,   // F24
  stop_waiter,   // F24, longer than the ttl
  kill_pair,     // F1 and F24: dlock and one that waits behind it
  client_clock,  // F17: the wall clock of the clients, by an hour
  restart,       // F6: the server is killed and started with its data
  wipe,          // F7: with an empty store
  flush,         // emptied while it runs; of redlock two of five
  stop_short,    // F8, 400 ms
  stop_middle,   // F8, long enough for jobs to be ended, and shorter than the ttl
  stop_long,     // F8, longer than the ttl; of redlock three of five
  minority,      // F9: two masters of five stopped for longer than the ttl
  cut,           // F11: no connection for longer than the ttl
  lose_reply,    // F13: the request is carried out, its reply lost
  delay,         // F14: up to 60 ms each way
  reset,         // F15: all connections are reset, again and again
  clock_ahead,   // F16: the wall clock of the server, by an hour
  clock_back,
  minority_clock,  // two masters of five are an hour ahead
  remove,          // F22: an operator removes the record (release --force)
  fail_over,       // of Sentinel: the master is killed
  move,            // of a Redis cluster: the slot of the lock goes to another server
};

struct FaultName {
  Fault fault;
  std::string_view name, what;  // name: one word, for --fault
};

const std::vector<FaultName>& all_faults();

// A fault, and another that processes suffer while the first one lasts: "restart+kill-dlock".
struct Faults {
  Fault first = Fault::none, midway = Fault::none;

  std::string name() const, what() const;
  bool loses() const;  // a lease may end, though its dlock and its job are well
};
std::optional<Faults> parse_faults(std::string_view name);  // nothing: there are none of this name
bool to_processes(Fault);

}  // namespace dlock::faults
