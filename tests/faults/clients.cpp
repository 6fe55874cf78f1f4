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

// Longer than any wait (-w), release and job together.
constexpr double longest_run = 150;

// Done, busy, no answer from the store, lost, killed by a fault.
const std::set<std::string>& usual() {
  static const std::set<std::string> all{"exit 0", "exit 69", "exit 75", "exit 123",
                                         "signal 9 (KILL)"};
  return all;
}

}  // namespace

Clients::Clients(Work work)
    : work_(std::move(work)), pids_(work_.keys, std::vector<pid_t>(work_.clients_per_key, 0)) {
  for (std::size_t k = 0; k < work_.keys; ++k)
    for (std::size_t i = 0; i < work_.clients_per_key; ++i)
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

void Clients::loop(std::size_t key, std::size_t number) {
  const std::string trace = base(key, number) + ".trace", words = base(key, number) + ".err";
  const std::string key_number = std::to_string(key);
  test::Spawn spawn{.argv = {work_.dlock,
                             "run",
                             "-q",
                             "-b",
                             work_.url,
                             "--recipe",
                             work_.recipe,
                             "--ttl",
                             fmt::format("{}s", work_.ttl),
                             "-w",
                             "60s",
                             "--trace",
                             trace,
                             "--key",
                             "fault-" + key_number,
                             "--",
                             work_.job,
                             work_.arena,
                             key_number,
                             std::to_string(work_.job_ms)},
                    .env = work_.env};
  while (!stop_) {
    const Fd err{::open(words.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    spawn.fds = {{2, err.get()}};
    test::Process run = test::Process::start(spawn);
    {
      const std::lock_guard lock{mutex_};
      pids_[key][number] = run.pid();
    }
    const std::string how = test::describe(run.wait(longest_run));
    {
      const std::lock_guard lock{mutex_};
      pids_[key][number] = 0;
      ++statuses_[how];
      if (is_unusual(how)) last_words_ = how + ": " + test::read_file(words);
    }
    // A store that refuses at once is not asked a thousand times a second.
    if (how == "exit 69") ::usleep(20'000);
  }
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

std::vector<std::string> Clients::traces() const {
  std::vector<std::string> all;
  for (std::size_t k = 0; k < work_.keys; ++k)
    for (std::size_t i = 0; i < work_.clients_per_key; ++i) all.push_back(base(k, i) + ".trace");
  return all;
}

std::string Clients::last_words() const {
  const std::lock_guard lock{mutex_};
  return last_words_;
}

}  // namespace dlock::faults
