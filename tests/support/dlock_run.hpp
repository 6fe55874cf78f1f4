// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "support/status_events.hpp"

namespace dlock::test {

// One `dlock run` of key k, by $DLOCK.
class Run {
 public:
  Run(const std::string& url, std::vector<std::string> options, std::vector<std::string> command,
      std::vector<std::pair<std::string, std::string>> env = {}) {
    if (!std::getenv("DLOCK")) give_up("DLOCK is not set");
    Pipe status, words, out;
    std::vector<std::string> argv{std::getenv("DLOCK"), "run", "-b", url, "--key", "k",
                                  "--status",           "9"};
    argv.insert(argv.end(), options.begin(), options.end());
    argv.push_back("--");
    argv.insert(argv.end(), command.begin(), command.end());
    began = boot_now();
    process_.emplace(Process::start(
        {.argv = argv,
         .env = std::move(env),
         .fds = {{1, out.write_end.get()}, {2, words.write_end.get()}, {9, status.write_end.get()}},
         .place = Spawn::Place::own_session}));
    events_.emplace(std::move(status.read_end));
    words_.emplace(std::move(words.read_end));
    out_.emplace(std::move(out.read_end));
  }
  double event(const char* name) {
    const auto e = events_->wait(name, 60);
    if (!e) give_up(fmt::format("no event {}; dlock said: {}", name, said()));
    return e->t;
  }
  bool comes(const char* name) { return events_->wait(name, 60).has_value(); }
  void signal(int s) {
    signalled = boot_now();
    process_->signal(s);
  }
  // How it ended: "exit 75". `ended` is the time.
  std::string end() {
    const auto status = process_->wait(120);
    ended = boot_now();
    return describe(status);
  }
  std::string said() {
    std::string all;
    while (const auto line = words_->next(0.2)) all += *line + "\n";
    return all;
  }
  std::string next_line() { return out_->next(60).value_or(""); }  // of the command
  double began = 0, signalled = 0, ended = 0;

 private:
  std::optional<Process> process_;
  std::optional<EventStream> events_;
  std::optional<Lines> words_, out_;
};

}  // namespace dlock::test
