// SPDX-License-Identifier: Apache-2.0
// Clients, each with a trace file of its own: either each client runs one `dlock
// run` after the other, or the clients form a queue and each runs a single one.
#pragma once
#include <sys/types.h>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include "support/stores.hpp"

namespace dlock::faults {

struct KeyWork {    // fault-0, fault-1, ...
  test::Kind kind;  // the first client has the options of those that hold
  std::size_t clients = 4;
  int job_ms = 2;
};

struct Work {
  std::string dlock, job;  // programs
  std::string url;
  int ttl = 2;  // seconds
  std::vector<KeyWork> keys;
  bool queue = false;     // each runs once, for as long as it takes, behind the one before it
  std::string directory;  // of traces and messages
  std::string arena;      // path
  std::vector<std::pair<std::string, std::string>> env;  // of dlock
  std::vector<std::string> expected;  // statuses besides the usual ones: "exit 125"
};

struct End {  // of a dlock
  std::size_t key, number;
  pid_t pid;
  std::string how, said;  // "exit 0"; on stderr
};

class Clients {
 public:
  explicit Clients(Work);  // starts them
  ~Clients() { stop(); }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // No new runs; returns once those that run have ended.
  void stop();

  // Only of a queue: whether all of this key hold or wait, at the latest when `seconds` are over.
  bool queued(std::size_t key, double seconds) const;
  std::vector<pid_t> running(std::size_t key) const;
  bool is_running(std::size_t key, pid_t) const;
  std::map<std::string, std::size_t> statuses() const;  // "exit 0" -> times
  std::vector<std::string> traces(std::size_t key) const;
  std::vector<End> ends() const;  // all of a queue; else the last one with an unusual status

 private:
  void loop(std::size_t key, std::size_t number);
  bool in_place(std::size_t key, std::size_t number, double seconds) const;
  std::vector<std::string> command(std::size_t key, std::size_t number) const;
  bool is_unusual(const std::string& how) const;
  std::string base(std::size_t key, std::size_t number) const;

  const Work work_;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;
  std::vector<std::vector<pid_t>> pids_;  // by key and client; 0: none
  std::map<std::string, std::size_t> statuses_;
  std::vector<End> ends_;
  std::vector<std::thread> threads_;
};

}  // namespace dlock::faults
