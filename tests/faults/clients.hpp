// SPDX-License-Identifier: Apache-2.0
// Clients that run one `dlock run` after the other, each with a trace file of its own.
#pragma once
#include <sys/types.h>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dlock::faults {

struct Work {
  std::string dlock, job;  // programs
  std::string url, recipe;
  int ttl = 2;           // seconds
  std::size_t keys = 4;  // fault-0, fault-1, ...
  std::size_t clients_per_key = 4;
  int job_ms = 2;
  std::string directory;                                 // of traces and messages
  std::string arena;                                     // path
  std::vector<std::pair<std::string, std::string>> env;  // of dlock
  std::vector<std::string> expected;  // statuses besides the usual ones: "exit 125"
};

class Clients {
 public:
  explicit Clients(Work);  // starts them
  ~Clients() { stop(); }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // No new runs; returns once those that run have ended.
  void stop();

  std::vector<pid_t> running(std::size_t key) const;
  bool is_running(std::size_t key, pid_t) const;
  std::map<std::string, std::size_t> statuses() const;  // "exit 0" -> times
  std::vector<std::string> traces() const;
  std::string last_words() const;  // of a client that ended with an unusual status

 private:
  void loop(std::size_t key, std::size_t number);
  bool is_unusual(const std::string& how) const;
  std::string base(std::size_t key, std::size_t number) const;

  const Work work_;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;
  std::vector<std::vector<pid_t>> pids_;  // by key and client; 0: none
  std::map<std::string, std::size_t> statuses_;
  std::string last_words_;
  std::vector<std::thread> threads_;
};

}  // namespace dlock::faults
