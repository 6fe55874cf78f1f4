// SPDX-License-Identifier: Apache-2.0
#include "util/writer.hpp"
#include <poll.h>
#include <unistd.h>
#include <cerrno>
#include <climits>
#include <system_error>
#include <thread>
#include <utility>
#include "util/file.hpp"

namespace dlock {
void Writer::write(int fd, std::string text) {
  if (fd < 0) return;
  const std::lock_guard lock(mutex_);
  if (bytes_ + text.size() > most_bytes) {
    ++dropped_;
    return;
  }
  bytes_ += text.size();
  lines_.push_back({fd, std::move(text)});
  try {
    if (!started_) std::thread([this] { work(); }).detach();
    started_ = true;
  } catch (const std::system_error&) {  // no thread is available
    write_at_once();
  }
  changed_.notify_all();
}

// Writes what it can without blocking, and drops the rest.
void Writer::write_at_once() {
  for (const Line& line : lines_) {
    pollfd p{line.fd, POLLOUT, 0};
    const bool fits = line.text.size() <= PIPE_BUF;  // after POLLOUT a pipe has this much room
    if (!fits || ::poll(&p, 1, 0) <= 0 || ::write(line.fd, line.text.data(), line.text.size()) < 0)
      ++dropped_;
  }
  lines_.clear();
  bytes_ = 0;
}

bool Writer::flush(Duration bound) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, bound, [this] { return lines_.empty() && !busy_; });
}

std::uint64_t Writer::dropped() {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void Writer::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !lines_.empty(); });
    const Line line = std::move(lines_.front());
    lines_.pop_front();
    busy_ = true;
    lock.unlock();
    const int error = write_all(line.fd, line.text);
    if (error != 0 && error != EPIPE && on_failure && failed_.insert(line.fd).second)
      on_failure(line.fd, error);
    lock.lock();
    busy_ = false;
    bytes_ -= line.text.size();
    if (error != 0) ++dropped_;
    changed_.notify_all();
  }
}

}  // namespace dlock
