// SPDX-License-Identifier: Apache-2.0
#include "clients.hpp"
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <set>
#include "support/process.hpp"

namespace dlock::faults {
namespace {

// Longer than any wait (-w), release and job together; and than a whole queue, whose store grants
// nothing in its first minute.
constexpr double longest_run = 150, longest_queue = 540, longest_start = 180;

// Done, busy, no answer from the store, lost, killed by a fault.
const std::set<std::string>& usual() {
  static const std::set<std::string> all{"exit 0", "exit 69", "exit 75", "exit 123",
                                         "signal 9 (KILL)"};
  return all;
}

}  // namespace

Clients::Clients(Work work) : work_(std::move(work)) {
  for (const KeyWork& k : work_.keys) pids_.emplace_back(k.clients, 0);
  for (std::size_t k = 0; k < work_.keys.size(); ++k)
    for (std::size_t i = 0; i < work_.keys[k].clients; ++i)
      threads_.emplace_back([this, k, i] { loop(k, i); });
}

void Clients::stop() {
  stop_ = true;
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

bool Clients::is_unusual(const std::string& how) const {
  return usual().count(how) == 0 &&
         std::find(work_.expected.begin(), work_.expected.end(), how) == work_.expected.end();
}

std::string Clients::base(std::size_t key, std::size_t number) const {
  return fmt::format("{}/{}-{}", work_.directory, key, number);
}

std::vector<std::string> Clients::command(std::size_t key, std::size_t number) const {
  const KeyWork& k = work_.keys[key];
  const auto& mode = number == 0 ? k.kind.holds : k.kind.waits;
  const bool shared = std::find(mode.begin(), mode.end(), "-s") != mode.end();
  const std::string key_number = std::to_string(key);
  std::vector<std::string> words{work_.dlock, "run",
                                 "-b",        work_.url,
                                 "--recipe",  k.kind.recipe,
                                 "--ttl",     fmt::format("{}s", work_.ttl),
                                 "--trace",   base(key, number) + ".trace",
                                 "--key",     "fault-" + key_number};
  if (!work_.queue) words.insert(words.end(), {"-q", "-w", "60s"});
  words.insert(words.end(), mode.begin(), mode.end());
  // Many jobs of a queue stay for long, and are not to slow down what they wait for.
  words.insert(words.end(), {"--", work_.job, work_.arena, key_number, std::to_string(k.job_ms),
                             work_.queue ? "5000" : "500", shared ? "shared" : "exclusive",
                             work_.queue && number > 0 ? "goes" : "stays"});
  return words;
}

bool Clients::in_place(std::size_t key, std::size_t number, double seconds) const {
  const std::string trace = base(key, number) + ".trace";
  for (const double until = test::boot_now() + seconds; test::boot_now() < until;) {
    if (test::read_file(trace).find(number == 0 ? "\"child_start\"" : "\"queued\"") !=
        std::string::npos)
      return true;
    ::usleep(20'000);
  }
  return false;
}

bool Clients::queued(std::size_t key, double seconds) const {
  const double until = test::boot_now() + seconds;
  for (std::size_t i = 0; i < work_.keys[key].clients; ++i)
    if (!in_place(key, i, until - test::boot_now())) return false;
  return true;
}

void Clients::loop(std::size_t key, std::size_t number) {
  const std::string words = base(key, number) + ".err";
  test::Spawn spawn{.argv = command(key, number), .env = work_.env};
  if (work_.queue && number > 0) (void)in_place(key, number - 1, longest_start);
  do {
    const Fd err{::open(words.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    spawn.fds = {{2, err.get()}};
    test::Process run = test::Process::start(spawn);
    {
      const std::lock_guard lock{mutex_};
      pids_[key][number] = run.pid();
    }
    const std::string how = test::describe(run.wait(work_.queue ? longest_queue : longest_run));
    {
      const std::lock_guard lock{mutex_};
      pids_[key][number] = 0;
      ++statuses_[how];
      if (!work_.queue && is_unusual(how)) ends_.clear();
      if (work_.queue || is_unusual(how))
        ends_.push_back({key, number, run.pid(), how, test::read_file(words)});
    }
    // A store that refuses at once is not asked a thousand times a second.
    if (how == "exit 69") ::usleep(20'000);
  } while (!work_.queue && !stop_);
}

std::vector<pid_t> Clients::running(std::size_t key) const {
  const std::lock_guard lock{mutex_};
  std::vector<pid_t> all = pids_[key];
  std::erase(all, 0);
  return all;
}

bool Clients::is_running(std::size_t key, pid_t pid) const {
  const auto all = running(key);
  return std::find(all.begin(), all.end(), pid) != all.end();
}

std::map<std::string, std::size_t> Clients::statuses() const {
  const std::lock_guard lock{mutex_};
  return statuses_;
}

std::vector<std::string> Clients::traces(std::size_t key) const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < work_.keys[key].clients; ++i) all.push_back(base(key, i) + ".trace");
  return all;
}

std::vector<End> Clients::ends() const {
  const std::lock_guard lock{mutex_};
  return ends_;
}

}  // namespace dlock::faults
