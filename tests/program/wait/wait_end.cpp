// SPDX-License-Identifier: Apache-2.0
// wait_end silent RUNS [STORE...]     delay of the end of a wait and of a TERM, when the store
// falls silent
// wait_end suspend [STORE...]         the machine sleeps: a wait ends with it, a lease is renewed
// at once
// wait_end abandoned [STORE...]       a waiter that could not cancel delays the next by its
// patience, a grant to it by its ttl
//
// $DLOCK: the program. Status 1: a promise was broken; 77: no server of those asked for is
// installed.
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include "one_run.hpp"
#include "support/clock_file.hpp"

using namespace dlock::test;

namespace {

const struct Row {
  const char *name, *store, *items;
} table[] = {{"file", "file", ""},
             {"redis", "redis", "?restart_grace=0"},
             {"redis-set", "redis", "?restart_grace=0&recipe=set"},
             {"redlock", "redlock", "?restart_grace=0"},
             {"zookeeper", "zookeeper", ""},
             {"mysql", "mysql", ""},
             {"get-lock", "mysql", "?recipe=get-lock"},
             {"advisory", "postgresql", "?recipe=advisory"}};

void silent(const Place& at, int runs) {
  const std::string& name = at.name;
  double wait = 0, term = 0, early = 0, once = 0;  // the longest delays
  for (int i = 0; i < runs; ++i) {
    Run holder(at.url, {}, job);
    holder.event("acquired");
    Run asked(at.url, {}, {"true"});
    asked.event("waiting");
    Run limited(at.url, {"-w", "4"}, {"true"});
    limited.event("waiting");
    at.store.freeze();
    // before the store is asked for the last time
    const bool in_time = boot_now() < limited.began + 2.9;
    Run connecting(at.url, {}, {"true"});
    Run one(at.url, {"-n", "--connect-timeout", "1", "--op-timeout", "1"}, {"true"});

    asked.signal(SIGTERM);
    const std::string by_term = asked.end();
    check(by_term == "signal 15 (TERM)", fmt::format("{}: TERM while waiting: {}", name, by_term));
    term = std::max(term, asked.ended - asked.signalled);
    connecting.signal(SIGTERM);
    check(connecting.end() == "signal 15 (TERM)", name + ": TERM while connecting");
    early = std::max(early, connecting.ended - connecting.signalled);
    const std::string by_one = one.end();
    check(by_one == "exit 69", fmt::format("{}: -n: {}", name, by_one));
    once = std::max(once, one.ended - one.began - 2);
    const std::string by_time = limited.end();
    // A file store can be read even in the middle of another's change.
    const bool right = name == "file" ? by_time == "exit 75" : by_time == "exit 69" || !in_time;
    check(right, fmt::format("{}: -w 4 without an answer: {}: {}", name, by_time, limited.said()));
    wait = std::max(wait, limited.ended - limited.began - 4);

    at.store.thaw();
    holder.signal(SIGTERM);
    (void)holder.end();
  }
  check(std::max({wait, term, early, once}) < promised + load, name + ": too late");
  fmt::print(
      "{:10}  late at most: -w {:.3f} s, TERM {:.3f} s, while connecting {:.3f} s, -n {:.3f} s\n",
      name, wait, term, early, once);
}

// A machine that sleeps, for the programs under the shim.
using Machine = ClockFile;
std::vector<std::pair<std::string, std::string>> environment(const Machine& m) {
  return {{"LD_PRELOAD", CLOCK_SHIFT},
          {"CLOCK_SHIFT_FILE", m.path()},
          {"ASAN_OPTIONS", "verify_asan_link_order=0"}};
}

// Of the promised 250 ms the store has this for its last answer. On a busy machine that may take
// longer, and the wait rightly ends without.
constexpr double time_to_answer = 0.2;
bool judged = false;

// A whole client takes half of that.
bool answers_at_once(const Place& at) {
  const double began = boot_now();
  const std::string inspect =
      fmt::format("'{}' inspect k -b '{}' >/dev/null 2>&1", std::getenv("DLOCK"), at.url);
  (void)!std::system(inspect.c_str());
  return boot_now() - began < time_to_answer / 2;
}

void suspend(const Place& at) {
  const std::string& name = at.name;
  {
    Machine machine;
    Run holder(at.url, {"--ttl", "30"}, job, environment(machine));
    holder.event("acquired");
    if (name != "file") {  // an attached lock is not renewed
      const double woke = boot_now();
      machine.suspend(std::chrono::seconds{12});
      holder.event("renewed");
      check(boot_now() - woke < 1 + promised + load,
            fmt::format("{}: renewed {:.1f} s late", name, boot_now() - woke));
    }
    // Until a wait ends busy. One that used up its time counts if the store was quick around it.
    int tries = 0, counted = 0;
    std::string how;
    double woke = 0, ended = 0;
    for (bool again = true; again && counted < 3 && tries < 10; ++tries) {
      const bool quick = answers_at_once(at);
      Machine other;
      Run waiter(at.url, {"-q", "-w", "1000"}, {"true"}, environment(other));
      waiter.event("waiting");
      woke = boot_now();
      other.suspend(std::chrono::seconds{1000});
      // Timers that count suspend fire when the machine wakes; the shim moves the clock alone.
      waiter.signal(SIGCONT);
      how = waiter.end();
      ended = waiter.ended;
      again = how == "exit 69" && ended - woke >= time_to_answer;
      if (how != "exit 75") how += ": " + waiter.said();
      counted += again && quick && answers_at_once(at);
      check(ended - woke < 1 + promised + load,
            fmt::format("{}: ended {:.1f} s late", name, ended - woke));
      if (again) continue;
      check(how == "exit 75", fmt::format("{}: a wait that ended in suspend: {}", name, how));
    }
    check(counted < 3, fmt::format("{}: {} of {} waits that ended in suspend, while the store "
                                   "answered at once: {}",
                                   name, counted, tries, how));
    if (how != "exit 75")
      fmt::print("{:10}  not judged: in {} waits, of which {} count, the store took longer\n", name,
                 tries, counted);
    else
      fmt::print("{:10}  wait {} ended {:.0f} ms after the machine woke\n", name, tries,
                 (ended - woke) * 1000);
    judged |= how == "exit 75" || counted == 3;
    holder.signal(SIGTERM);
    (void)holder.end();
  }
}

}  // namespace

int main(int argc, char** argv) {
  ::setlinebuf(stdout);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || !std::getenv("DLOCK"))
    give_up("usage: wait_end silent RUNS|suspend|abandoned [STORE...]");
  const std::string what = words.front();
  words.erase(words.begin());
  int runs = 1;
  if (what == "silent" && !words.empty()) {
    runs = std::atoi(words.front().c_str());
    words.erase(words.begin());
  }
  bool any = false;
  for (const Row& row : table) {
    if (!words.empty() && std::find(words.begin(), words.end(), row.name) == words.end()) continue;
    if (!missing(row.store).empty()) {
      fmt::print("{}: not installed\n", row.name);
      continue;
    }
    any = true;
    const auto store = make_store(row.store);
    const Place at{row.name, store->url() + row.items, *store};
    if (what == "silent") silent(at, runs);
    else if (what == "suspend") suspend(at);
    else if (what == "abandoned") abandoned(at);
    else give_up("no such part: " + what);
  }
  if (broken) return 1;
  return any && (judged || what != "suspend") ? 0 : skipped;
}
