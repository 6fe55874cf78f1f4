// SPDX-License-Identifier: Apache-2.0
#include "signal_run.hpp"
#include <fcntl.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <thread>
#include "support/options.hpp"

namespace dlock::test {
namespace {

Spawn prepare(const RunAsked& asked, const Pty& terminal) {
  Spawn s;
  s.place = Spawn::Place::own_session;  // so that the terminal of the test run is not found
  if (asked.mode.terminal) s.tty = terminal.slave.get();
  s.ignored = asked.ignored;
  s.blocked = asked.blocked;
  return s;
}

}  // namespace

const std::string& dlock_program() {
  static const std::string path = program_from("DLOCK_FAKE");
  return path;
}

const std::string& signal_job() {
  static const std::string path = program_from("SIGNAL_JOB");
  return path;
}

DlockRun::DlockRun(const RunAsked& asked) {
  static std::atomic<int> number{0};
  mark_ = std::to_string(::getpid()) + "." + std::to_string(++number);
  Spawn s = prepare(asked, pty_);
  s.argv = asked.before;
  s.argv.insert(s.argv.end(),
                {dlock_program(), "run", "-b", asked.backend, "--key", "k", "--status", "9"});
  for (const auto* more : {&asked.mode.options, &asked.options})
    s.argv.insert(s.argv.end(), more->begin(), more->end());
  s.argv.push_back("--");
  s.argv.insert(s.argv.end(), asked.job.begin(), asked.job.end());
  s.env = {{"DLOCK_TEST_RUN", mark_}};
  Pipe out, events;
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd err(::open((dir_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  s.fds = {{1, out.write_end.get()}, {2, err.get()}, {9, events.write_end.get()}};
  if (!asked.mode.terminal) s.fds.push_back({0, null.get()});
  dlock_.emplace(Process::start(s));
  pty_.close_slave();
  out_.emplace(std::move(out.read_end));
  events_.emplace(std::move(events.read_end));
}

DlockRun::~DlockRun() { kill_carriers("DLOCK_TEST_RUN", mark_); }

std::string DlockRun::end(double seconds) { return describe(dlock_->wait(seconds)); }

std::string DlockRun::complaint() const {
  return "; stderr: '" + read_file(dir_ / "err") + "'; events: " + names(events_->seen);
}

std::string run_direct(const RunAsked& asked, double seconds) {
  Pty terminal;
  Spawn s = prepare(asked, terminal);
  s.argv = asked.job;
  Pipe out;
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  s.fds = {{1, out.write_end.get()}};
  if (!asked.mode.terminal) s.fds.push_back({0, null.get()});
  Process job = Process::start(s);
  out.write_end.reset();
  terminal.close_slave();
  const Output text = read_all(out.read_end.get(), seconds);
  if (!text.complete || describe(job.wait(seconds)) != "exit 0")
    give_up("without dlock: " + describe(job.wait(0)));
  return text.text;
}

void Tally::check(bool ok, const std::string& message) {
  const std::lock_guard lock(mutex_);
  ++checks_;
  if (ok) return;
  ++wrong_;
  std::printf("  wrong: %s: %s\n", what_.c_str(), message.c_str());
}

bool Tally::report(const std::string& more) const {
  const std::lock_guard lock(mutex_);
  std::printf("%s: %zu checks, %zu wrong%s\n", what_.c_str(), checks_, wrong_, more.c_str());
  std::fflush(stdout);
  return wrong_ == 0 && checks_ > 0;
}

void in_parallel(std::size_t n, const std::function<void(std::size_t)>& f) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::size_t k; (k = next++) < n;) f(k);
    });
  for (auto& t : threads) t.join();
}

}  // namespace dlock::test
