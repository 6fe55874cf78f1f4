// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include "support/temp_dir.hpp"
#include "util/fd.hpp"

namespace dlock::test {

// The file with which clock_shift.cpp moves the clocks of programs, while they run.
class ClockFile {
 public:
  ClockFile() {
    const Fd fd{::open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    void* at = ::ftruncate(fd.get(), 4096) != 0
                   ? MAP_FAILED
                   : ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) throw std::runtime_error("cannot map " + path());
    shifts_ = static_cast<volatile std::int64_t*>(at);
  }
  ~ClockFile() { ::munmap(const_cast<std::int64_t*>(shifts_), 4096); }
  ClockFile(const ClockFile&) = delete;
  ClockFile& operator=(const ClockFile&) = delete;

  const std::string& directory() const { return directory_.path(); }
  std::string path() const { return directory_ / "shift"; }  // $CLOCK_SHIFT_FILE
  void set_wall(std::chrono::nanoseconds ahead) { shifts_[0] = ahead.count(); }
  void step_wall(std::chrono::nanoseconds by) { shifts_[0] = shifts_[0] + by.count(); }
  void suspend(std::chrono::nanoseconds by) { shifts_[1] = shifts_[1] + by.count(); }

 private:
  TempDir directory_;
  volatile std::int64_t* shifts_ = nullptr;
};

}  // namespace dlock::test
