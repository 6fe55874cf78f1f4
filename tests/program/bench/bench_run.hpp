// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>
#include "store.hpp"
#include "support/polling.hpp"
#include "support/process.hpp"

namespace dlock::test {

class Dlock {
 public:
  explicit Dlock(std::vector<std::string> words)
      : err_(std::move(err_pipe_.read_end)), process_(start(std::move(words))) {
    out_pipe_.write_end.reset();
    err_pipe_.write_end.reset();
  }
  void progress(const std::string& text) {  // waits for a progress line with this text
    for (auto line = err_.next(200); line; line = err_.next(200)) {
      said_ += *line + "\n";
      if (line->starts_with("progress: ") && line->find(text) != line->npos) return;
    }
    FAIL("no such progress: " << text << "; it said: " << said_);
  }
  void signal(int s) { process_.signal(s); }
  bool ended_within(double seconds) { return err_.wait_end(seconds); }
  std::string end() {
    out = read_all(out_pipe_.read_end.get(), 200).text;
    const std::string how = describe(process_.wait(200));
    err_.wait_end(1);
    while (auto line = err_.next(0)) said_ += *line + "\n";
    UNSCOPED_INFO(out << said_);  // with the assertion that this belongs to
    return how;
  }
  const std::string& said() const { return said_; }
  std::string out;

 private:
  Process start(std::vector<std::string> words) {
    words.insert(words.begin(), DLOCK);
    return Process::start(
        {.argv = std::move(words),
         .env = {},
         .fds = {{1, out_pipe_.write_end.get()}, {2, err_pipe_.write_end.get()}}});
  }
  Pipe out_pipe_, err_pipe_;
  Lines err_;
  std::string said_;
  Process process_;
};

// With all the time that a store on a busy machine may need: an answer that comes late would end
// the benchmark, or be an error of it.
inline std::vector<std::string> bench(const Store& s, std::vector<std::string> more) {
  std::vector<std::string> words{"bench", "-b",           s.url(), "--prefix",          "b-", "-c",
                                 "3",     "--op-timeout", "60s",   "--connect-timeout", "60s"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace dlock::test
