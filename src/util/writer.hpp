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

// Writes lines on a thread of its own, so that no thread that must act on time waits for a reader.
// The reader of stderr or --status may be stalled, and a file on a dead mount may hang. The Writer
// buffers at most a megabyte; it drops the rest, and counts the dropped lines. The thread starts
// with the first line, so do not fork after that line. Any thread may call it.
class Writer {
 public:
  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() = delete;  // it lives as long as the process: its thread may hang in a write

  // If a write fails although there is a reader (a full disk), the writer's thread calls this
  // function with errno, once per descriptor. Set it before the first line.
  std::function<void(int fd, int error)> on_failure;

  // `text`: whole lines.
  void write(int fd, std::string text);
  bool flush(Duration bound);  // true: everything has been written
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
  // the descriptors for which on_failure was called; only the writer's thread uses them
  std::set<int> failed_;
  bool started_ = false, busy_ = false;
};

}  // namespace dlock
