// SPDX-License-Identifier: Apache-2.0
// Clients of the Backend interface that want a few keys all the time, while a test does harm to
// their store; the checker of tests/support/history judges what they were told.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include "history/event.hpp"
#include "support/client.hpp"

namespace dlock::test {

class Dice;

class Contention {
 public:
  struct Terms {
    std::function<std::unique_ptr<Backend>(unsigned client)> open;
    unsigned clients = 6, keys = 1;  // client n wants key n % keys
    Duration ttl{};
    unsigned seed = 0;
  };
  explicit Contention(Terms);  // they begin
  ~Contention() { stop(); }
  Contention(const Contention&) = delete;
  Contention& operator=(const Contention&) = delete;

  long grants() const noexcept { return grants_; }
  // They stop. Empty: no two held a key at a time, tokens rose, a release ended its own grant
  // alone, and every attempt ended.
  std::string violations();
  // Leases that were lost; requests that failed.
  std::atomic<long> lost{0}, errors{0};

 private:
  void client(unsigned number);
  void use(Backend&, Lease, unsigned number, Dice&);
  void note(unsigned number, history::What, const char* f, const Lease&);
  void stop();

  const Terms terms_;
  std::atomic<bool> over_{false};
  std::atomic<long> grants_{0};
  std::mutex mutex_;
  std::vector<history::Event> events_;
  std::vector<std::thread> threads_;
};

}  // namespace dlock::test
