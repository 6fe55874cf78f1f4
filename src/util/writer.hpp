// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include "core/clock.hpp"

namespace dlock {

// Writes to descriptors that may have no active reader (stderr, --status) or that may hang (a
// file on a dead mount), on its own thread, so that no thread that must act on time waits for a
// reader. Bounded: overflow is dropped and counted. The thread starts with the first line; do not
// fork after that. Any thread may call.
class Writer {
 public:
  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() = delete;  // lives as long as the process: its thread may hang in a write

  // Called on the writer's thread once for each descriptor whose reader is there and to which a line
  // could not be written (a full disk), with errno. Set before the first line.
  std::function<void(int fd, int error)> on_failure;

  // whole lines
  void write(int fd, std::string text);
  bool flush(Duration bound);  // true: everything is written
  std::uint64_t dropped();

 private:
  struct Line {
    int fd;
    std::string text;
  };
  void work();
  void write_at_once();

  static constexpr std::size_t most_bytes = 1 << 20;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Line> lines_;
  std::size_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::set<int> failed_;  // on_failure was called; of the writer's thread alone
  bool started_ = false, busy_ = false;
};

}  // namespace dlock
