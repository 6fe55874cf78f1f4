// SPDX-License-Identifier: Apache-2.0
// A private terminal for programs that need one.
#pragma once
#include <string>
#include <string_view>
#include "support/process.hpp"

namespace dlock::test {

struct Pty {
  Fd master, slave;  // both close-on-exec; give slave.get() to Spawn::tty, then close_slave()
  Pty();
  void close_slave() { slave.reset(); }
};

// Reads the terminal's output and types into it.
class Terminal {
 public:
  explicit Terminal(Fd master) : master_(std::move(master)) {}
  // True once `text` has appeared after the match of the last successful expect().
  bool expect(std::string_view text, double seconds);
  void type(std::string_view text);
  void hang_up() { master_.reset(); }
  void drain(double seconds);  // until every slave is closed
  const std::string& shown() const noexcept { return shown_; }
  // in shown(): the end of the last expect()'s match
  std::size_t found() const noexcept { return found_; }
  int fd() const noexcept { return master_.get(); }

 private:
  bool fill(double until);
  Fd master_;
  std::string shown_;
  std::size_t found_ = 0;
};

}  // namespace dlock::test
