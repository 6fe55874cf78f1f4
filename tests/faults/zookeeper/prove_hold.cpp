// SPDX-License-Identifier: Apache-2.0
// Jobs that run, and waiters that wait, three times as long as their ttl: every recipe and mode, on
// a server as distributions configure it, with URLs without items. All at once, so that it takes
// little more than twice the longest of them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <thread>
#include "prove.hpp"
#include "support/process.hpp"
#include "support/status_events.hpp"
#include "zookeeper/queue/queue.hpp"

using namespace dlock;
using namespace dlock::test;

namespace dlock::prove {
namespace {

constexpr int followers = 8;

struct Kind {
  const char* name;
  const char* recipe;
  std::vector<std::string> holds, waits;  // options for the mode
  bool ordered = true;
};
const Kind kinds[] = {
    {"sequential", "sequential", {}, {}},
    {"sequential, a writer behind a reader", "sequential", {"-s"}, {}},
    {"sequential, readers behind a writer", "sequential", {}, {"-s"}, false},
    {"sequential, permits", "sequential", {"--limit", "1"}, {"--limit", "1"}},
    {"curator", "curator", {}, {}},
    {"kazoo", "kazoo", {}, {}},
    {"ephemeral", "ephemeral", {}, {}, false},
};

struct Run {
  Process process;
  std::string base;  // prefix of its files: .trace, .err
};

// One kind at one ttl: a job alone, and a job with waiters.
class Cell {
 public:
  Cell(const Kind& kind, Duration ttl, std::string dlock, const std::string& url,
       std::string directory)
      : kind_(kind), ttl_(ttl), dlock_(std::move(dlock)), base_(std::move(directory)) {
    url_ = url + fresh_chroot() + (kind.recipe == std::string{"sequential"} ? "" : "?prefix=p/");
    ::mkdir(base_.c_str(), 0700);
    ::mkfifo((base_ + "/end").c_str(), 0600);
  }

  void begin() {
    const double span = 3 * seconds(ttl_);
    alone_.push_back(start("alone", kind_.holds, {"sleep", fmt::format("{}", span)}));
    queued_.push_back(start("queued", kind_.holds, {"cat", base_ + "/end"}));
    await(1);
    for (int i = 0; i < followers; ++i) {
      queued_.push_back(
          start("queued", kind_.waits, {"sh", "-c", fmt::format("echo {} >>{}/order", i, base_)}));
      if (kind_.ordered) await(static_cast<std::size_t>(i) + 2);
    }
    if (!kind_.ordered && kind_.recipe != std::string{"ephemeral"}) await(followers + 1);
  }

  void end_holder() const {
    const Fd fd{::open((base_ + "/end").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)};
  }

  void finish() {
    int wrong = 0, too_late = 0;
    double least = std::numeric_limits<double>::max();
    for (auto* runs : {&alone_, &queued_})
      for (Run& run : *runs) {
        const auto status = run.process.wait(4 * seconds(ttl_) + 60);
        const std::string err = read_file(run.base + ".err");
        if (status != 0) fmt::print("  {}: {} {}\n", run.base, describe(status), err);
        wrong += status != 0;
        for (std::size_t at = err.find("too late"); at != err.npos;
             at = err.find("too late", at + 1))
          ++too_late;
        const auto grants = grants_in(read_file(run.base + ".trace"));
        for (std::size_t i = 1; i < grants.size(); ++i)
          least = std::min(least, grants[i - 1].deadline - grants[i].t);
      }
    std::ifstream in{base_ + "/order"};
    std::string order, line;
    while (std::getline(in, line)) order += line;
    fmt::print(
        "ttl {:>2.0f} s  {:<38} {} of {} ended well, \"too late\" {}, order {}, a renewal at least "
        "{:.2f} s before its "
        "deadline\n",
        seconds(ttl_), kind_.name, alone_.size() + queued_.size() - static_cast<std::size_t>(wrong),
        alone_.size() + queued_.size(), too_late, order, least);
    std::fflush(stdout);
    must(wrong == 0, "every job ends with 0");
    must(too_late == 0, "no grant comes too late");
    must(order.size() == followers && (!kind_.ordered || order == "01234567"),
         "all run, in order of arrival");
  }

 private:
  static double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

  Run start(const std::string& k, const std::vector<std::string>& mode,
            const std::vector<std::string>& command) {
    const std::string base = fmt::format("{}/{}{}", base_, k, number_++);
    const Fd err{::open((base + ".err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    Spawn s{.argv = {dlock_, "run", "-b", url_, "--recipe", kind_.recipe, "--ttl",
                     fmt::format("{}s", seconds(ttl_)), "--trace", base + ".trace", "--key", k}};
    s.argv.insert(s.argv.end(), mode.begin(), mode.end());
    s.argv.emplace_back("--");
    s.argv.insert(s.argv.end(), command.begin(), command.end());
    s.fds = {{2, err.get()}};
    return {Process::start(s), base};
  }

  // Waits until so many hold or wait.
  void await(std::size_t count) {
    if (!look_) look_ = open_zookeeper(url_, {}, kind_.recipe);
    for (const Deadline end = Clock::now() + 120s; Clock::now() < end; ::usleep(10'000)) {
      const auto seen = look_->inspect(key("queued"));
      if (seen && *seen && (*seen)->holders.size() + (*seen)->waiters.size() >= count) return;
    }
    throw std::runtime_error(fmt::format("{}: not {} in the queue", kind_.name, count));
  }

  const Kind& kind_;
  const Duration ttl_;
  const std::string dlock_, base_;
  std::string url_;
  int number_ = 0;
  std::unique_ptr<Backend> look_;
  std::vector<Run> alone_, queued_;
};

}  // namespace

void hold() {
  const char* dlock = std::getenv("DLOCK");
  if (!dlock) throw std::runtime_error("DLOCK is not set");
  ZookeeperServer server{{.tick = 2000ms}};
  const TestDirectory directory;
  std::vector<std::unique_ptr<Cell>> cells;
  std::vector<Duration> ttls{4s};
  if (full) ttls = {30s, 10s, 4s};
  for (const Duration ttl : ttls)
    for (const Kind& kind : kinds)
      cells.push_back(std::make_unique<Cell>(kind, ttl, dlock, server.url(),
                                             fmt::format("{}/{}", directory.path(), cells.size())));
  for (const auto& cell : cells) cell->begin();
  std::this_thread::sleep_for(3 * ttls.front());
  for (const auto& cell : cells) cell->end_holder();
  for (const auto& cell : cells) cell->finish();
}

}  // namespace dlock::prove
