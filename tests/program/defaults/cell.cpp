// SPDX-License-Identifier: Apache-2.0
#include "cell.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/poll.h>
#include <sys/stat.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <utility>
#include "history/report.hpp"
#include "util/fd.hpp"

namespace dlock::test {
namespace {

constexpr int waiters = 2;
// A minute of the store's grace after its start, plus the delay of a busy machine.
constexpr double patience = 180;
constexpr const char* met_another = "exit 99";

// A line of the trace.
void write_fault(const std::string& directory, const std::string& name, const char* phase,
                 pid_t pid) {
  std::ofstream{directory + "/faults", std::ios::app}
      << fmt::format(R"({{"t":{},"pid":{},"ev":"fault","name":"{}","phase":"{}"}})",
                     static_cast<long long>(boot_now() * 1e9), pid, name, phase)
      << '\n';
}

}  // namespace

Cell::Cell(Kind kind, int ttl, std::string url, std::string directory)
    : kind_(std::move(kind)),
      ttl_(ttl),
      url_(std::move(url)),
      base_(std::move(directory)),
      key_(fmt::format("queued-{}", base_.substr(base_.rfind('/') + 1))) {
  ::mkdir(base_.c_str(), 0700);
  ::mkfifo((base_ + "/end").c_str(), 0600);
  std::ofstream{base_ + "/faults"};
}

void Cell::begin() {
  alone_.push_back(start("alone", kind_.holds, {"sleep", std::to_string(3 * ttl_)}));
  queued_.push_back(start("queued", kind_.holds, {"cat", base_ + "/end"}));
  await(queued_.front(), "child_start");
  for (int i = 0; i < waiters; ++i) {
    queued_.push_back(start("queued", kind_.waits, {"true"}));
    await(queued_.back(), "queued");
  }
  await(alone_.front(), "child_start");
}

void Cell::end_holder() const {
  const Fd fd{::open((base_ + "/end").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)};
}

void Cell::note_fault(const std::string& name, pid_t pid) {
  faults_.push_back(fmt::format("{} {}", name, faults_.size()));
  write_fault(base_, faults_.back(), "begin", pid);
}

void Cell::kill(Whom whom) {
  Run& run = queued_.at(whom == Whom::holder ? 0 : 1);
  note_fault("killed", run.process.pid());
  run.process.signal(SIGKILL);
  run.end = "signal 9 (KILL)";
  run.has_job = whom == Whom::holder;
}

void Cell::stop(Whom whom) {
  Run& run = queued_.at(whom == Whom::holder ? 0 : 1);
  note_fault("stopped", run.process.pid());
  run.process.signal(SIGSTOP);
  if (whom == Whom::holder) run.end = "exit 123";
  stopped_ = true;
}

void Cell::go_on(Whom whom) { queued_.at(whom == Whom::holder ? 0 : 1).process.signal(SIGCONT); }

bool Cell::is_judged(std::string_view invariant, Excuses excuses) const {
  // A dlock that was stopped writes the end of its job when it goes on; the jobs themselves see
  // whether they overlap.
  if (stopped_ && (invariant == "I2" || invariant == "I3")) return false;
  return !excuses.forgets || invariant == "I4" || invariant == "I7" || invariant == "I10";
}

std::string Cell::finish(Excuses excuses, std::vector<std::string>& wrong) {
  std::string ends;
  std::size_t jobs = 0;
  for (const std::string& name : faults_) write_fault(base_, name, "end", 0);
  for (auto* runs : {&alone_, &queued_})
    for (Run& run : *runs) {
      const auto status = run.process.wait(patience);
      const bool holder = runs == &alone_ || &run == &queued_.front();
      const std::string how = describe(status), err = read_file(run.base + ".err");
      ends += (ends.empty() ? "" : ", ") + how;
      jobs += run.has_job;
      if (how != run.end && !(holder && excuses.lost && how == "exit 123") &&
          !(excuses.forgets && how == met_another))
        wrong.push_back(fmt::format("{}: {} ended with {}: {}", kind_.name(),
                                    run.base.substr(base_.size() + 1), how, err));
      if (err.find("too late") != err.npos)
        wrong.push_back(fmt::format("{}: granted too late: {}", kind_.name(), err));
    }
  history::Reading reading;
  for (const std::string& file : traces()) history::read(file, read_file(file), reading);
  if (!reading.error.empty()) wrong.push_back(reading.error);
  history::sort_by_time(reading);
  auto verdict = history::check(
      history::gather(reading.events),
      {.in_order = kind_.ordered, .heal = static_cast<std::int64_t>(patience * 1e9)});
  std::erase_if(verdict.violations,
                [&](const auto& v) { return !is_judged(v.invariant, excuses); });
  if (verdict.figures.jobs != jobs)
    wrong.push_back(fmt::format("{}: {} jobs ran", kind_.name(), verdict.figures.jobs));
  if (!verdict.violations.empty())
    wrong.push_back(kind_.name() + ": " + history::markdown(verdict));
  return fmt::format("{:<32} ttl {} s: {}", kind_.name(), ttl_, ends);
}

std::vector<std::string> Cell::traces() const {
  std::vector<std::string> all{base_ + "/faults"};
  for (const auto* runs : {&alone_, &queued_})
    for (const Run& run : *runs) all.push_back(run.base + ".trace");
  return all;
}

Cell::Run Cell::start(const std::string& key, const std::vector<std::string>& mode,
                      const std::vector<std::string>& command) {
  const std::string base = fmt::format("{}/{}{}", base_, key, number_++);
  const Fd err{::open((base + ".err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  { const Fd trace{::open((base + ".trace").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)}; }
  Spawn s{.argv = {std::getenv("DLOCK"), "run", "-b", url_, "--recipe", kind_.recipe, "--ttl",
                   fmt::format("{}s", ttl_), "--trace", base + ".trace", "--key",
                   key == "queued" ? key_ : fmt::format("{}-{}", key, key_)}};
  s.argv.insert(s.argv.end(), mode.begin(), mode.end());
  const bool shared = std::find(mode.begin(), mode.end(), "-s") != mode.end();
  s.argv.insert(s.argv.end(),
                {"--", "flock", "--nonblock", "--conflict-exit-code", "99",
                 shared ? "--shared" : "--exclusive", fmt::format("{}/{}.jobs", base_, key)});
  s.argv.insert(s.argv.end(), command.begin(), command.end());
  s.fds = {{2, err.get()}};
  return {Process::start(s), base};
}

void Cell::await(const Run& run, const char* event) const {
  const std::string file = run.base + ".trace", wanted = fmt::format("\"ev\":\"{}\"", event);
  const Fd changes{::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
  if (::inotify_add_watch(changes.get(), file.c_str(), IN_MODIFY) < 0)
    give_up("inotify on " + file);
  for (const double end = boot_now() + patience; boot_now() < end;) {
    if (read_file(file).find(wanted) != std::string::npos) return;
    pollfd p{changes.get(), POLLIN, 0};
    ::poll(&p, 1, 1000);
    char events[4096];
    while (::read(changes.get(), events, sizeof events) > 0) {}
  }
  give_up(fmt::format("{}: no {} in {}; dlock said: {}", kind_.name(), event, file,
                      read_file(run.base + ".err")));
}

}  // namespace dlock::test
