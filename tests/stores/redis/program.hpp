// SPDX-License-Identifier: Apache-2.0
// The program under test, run to its end.
#pragma once
#include <sys/wait.h>
#include <string>
#include <vector>
#include "support/options.hpp"
#include "support/process.hpp"
#include "support/status_events.hpp"

namespace dlock::test {

struct Ran {
  int status;  // of exit; -1: something else
  std::string said, printed;
};
inline Ran dlock_with(std::vector<std::string> words, double seconds = 60) {
  words.insert(words.begin(), program_from("DLOCK"));
  Pipe out, err;
  Process p =
      Process::start({.argv = words, .fds = {{1, out.write_end.get()}, {2, err.write_end.get()}}});
  out.write_end.reset();
  err.write_end.reset();
  const auto said = read_all(err.read_end.get(), seconds).text,
             printed = read_all(out.read_end.get(), seconds).text;
  const auto status = p.wait(seconds);
  return {status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1, said, printed};
}

inline bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

}  // namespace dlock::test
