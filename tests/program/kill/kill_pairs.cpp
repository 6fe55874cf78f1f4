// SPDX-License-Identifier: Apache-2.0
#include "kill_pairs.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include "fixture.hpp"
#include "support/process.hpp"
#include "support/status_events.hpp"

namespace dlock::test {
namespace {

constexpr double longest_step = 30;

enum class Target { dlock, guard };
struct Hit {
  int signal;
  Target target;
};

struct Pair {
  Hit first;
  std::optional<Hit> second;
  int gap_ms = 0;

  // The rows of NOT COVERED in dlock-backends(7).
  bool may_survive(bool leased) const {
    if (!second || second->target == first.target) return false;
    const bool both_killed = first.signal == SIGKILL && second->signal == SIGKILL;
    // no process is left that could end the tree, or hold a descriptor
    if (both_killed) return true;
    if (!leased) return false;  // a stopped process keeps its descriptors, and the lock
    // The death of dlock continues a guard that was stopped before.
    return !(first.signal == SIGSTOP && first.target == Target::guard && second->signal == SIGKILL);
  }
  std::string name() const {
    const auto word = [](const Hit& h) {
      return std::string(h.signal == SIGSTOP ? "STOP " : "KILL ") +
             (h.target == Target::dlock ? "dlock" : "guard");
    };
    if (!second) return word(first);
    return word(first) + ", " + (gap_ms > 0 ? std::to_string(gap_ms) + " ms, " : "") +
           word(*second);
  }
};

std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  const Hit hits[] = {{SIGSTOP, Target::dlock},
                      {SIGKILL, Target::dlock},
                      {SIGSTOP, Target::guard},
                      {SIGKILL, Target::guard}};
  for (const Hit& h : hits) pairs.push_back({h, {}, 0});
  for (const Hit& first : hits)
    for (const Hit& second : hits)
      for (const int gap : {0, 2, 20})
        if (first.target != second.target) pairs.push_back({first, second, gap});
  return pairs;
}

struct Store {
  std::string name, url;  // {} in the URL: a number of its own for each run
  int ttl_ms = 0;         // the shortest that `run` accepts without ?short_ttl=yes
  bool leased = true;
  std::optional<Fixture> server{};
};

std::string url_of(const Store& s, const std::string& number, const std::string& dir) {
  if (!s.leased) return "file:" + dir;
  std::string url = s.url;
  if (const auto at = url.find("{}"); at != url.npos) url.replace(at, 2, number);
  return url;
}

struct Found {
  // members when the next contender was granted; nothing: none was while the faults lasted
  std::optional<std::size_t> living;
  std::vector<std::string> wrong;
};

// Processes left by a killed guard become children of this program, thousands in a long run: they
// are reaped, except those that a Process waits for.
std::mutex births;
std::set<pid_t> awaited;

void reap_the_others() {
  const std::lock_guard lock(births);
  for (const pid_t p : children_of(::getpid()))
    if (awaited.count(p) == 0) ::waitpid(p, nullptr, WNOHANG);
}

class PairRun {
 public:
  PairRun(const Programs& programs, const Store& store, const Pair& pair)
      : programs_(programs), store_(store), pair_(pair) {
    static std::atomic<int> count{0};
    number_ = std::to_string(::getpid()) + "-" + std::to_string(++count);
    if (::mkfifo(fifo_.c_str(), 0600) != 0 || ::mkdir((dir_ / "locks").c_str(), 0700) != 0)
      give_up("no fifo");
    tree_.emplace(Fd(::open(fifo_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)));
  }
  ~PairRun() {
    kill_carriers("DLOCK_TEST_PAIR", number_);
    for (const pid_t p : carriers("DLOCK_TEST_TREE", fifo_)) ::kill(p, SIGKILL);
    for (auto* process : {&dlock_, &waiter_})
      if (*process) (*process)->wait(longest_step);
    reap_the_others();
  }

  Found go() {
    start();
    if (const auto line = tree_->next(longest_step); !line || !line->starts_with("complete "))
      return wrong("the tree did not come up");
    const auto children = children_of(dlock_->pid());
    if (children.size() != 1) return wrong("dlock has not one child");
    guard_ = children[0];
    if (!queue_waiter()) return wrong("the second contender is not waiting");
    hit(pair_.first);
    if (pair_.gap_ms > 0) ::poll(nullptr, 0, pair_.gap_ms);
    if (pair_.second) hit(*pair_.second);
    const bool both_dead =
        pair_.second && pair_.first.signal == SIGKILL && pair_.second->signal == SIGKILL;
    auto count = waiter_out_->next(both_dead       ? longest_step
                                   : store_.leased ? store_.ttl_ms / 1000.0 + 2
                                                   : 1);
    if (count) {
      found_.living = std::stoul(*count);
      return found_;
    }
    // Not granted to another: the lock is still held, and both can continue.
    dlock_->signal(SIGCONT), ::kill(guard_, SIGCONT), dlock_->signal(SIGTERM);
    count = waiter_out_->next(longest_step);
    if (!count) return wrong("the next one never got the lock");
    if (*count != "0")
      wrong("after both continued the next holder found " + *count + " living members");
    return found_;
  }

 private:
  Found wrong(const std::string& what) {
    found_.wrong.push_back(what + "; dlock says: " + read_file(dir_ / "err"));
    return found_;
  }
  void hit(const Hit& h) {
    if (h.target == Target::dlock) dlock_->signal(h.signal);
    else ::kill(guard_, h.signal);
  }
  Process spawn(std::vector<std::string> options, std::vector<std::pair<int, int>> fds) {
    Spawn s;
    s.argv = {programs_.dlock, "run", "-b", url_of(store_, number_, dir_ / "locks"),
              "--key",         "tree"};
    if (store_.leased) s.argv.insert(s.argv.end(), {"--ttl", std::to_string(store_.ttl_ms) + "ms"});
    s.argv.insert(s.argv.end(), options.begin(), options.end());
    s.env = {{"DLOCK_TEST_PAIR", number_}};
    s.place = Spawn::Place::own_session;
    const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const Fd err(::open((dir_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    s.fds = {{0, null.get()}, {1, null.get()}, {2, err.get()}};
    for (const auto& fd : fds) s.fds.push_back(fd);
    const std::lock_guard lock(births);
    Process p = Process::start(s);
    awaited.insert(p.pid());
    return p;
  }
  void start() { dlock_.emplace(spawn({"-k", "300ms", "--", programs_.tree, fifo_}, {})); }
  bool queue_waiter() {
    Pipe status, out;
    waiter_.emplace(spawn({"-q", "--status", "9", "--", programs_.tree, "--count", fifo_},
                          {{1, out.write_end.get()}, {9, status.write_end.get()}}));
    waiter_out_.emplace(std::move(out.read_end));
    waiter_events_.emplace(std::move(status.read_end));
    out.write_end.reset(), status.write_end.reset();
    return waiter_events_->wait("waiting", longest_step).has_value();
  }

  const Programs& programs_;
  const Store& store_;
  const Pair& pair_;
  TempDir dir_;
  const std::string fifo_ = dir_ / "tree";
  std::string number_;
  std::optional<Lines> tree_, waiter_out_;
  std::optional<Process> dlock_, waiter_;
  std::optional<EventStream> waiter_events_;
  pid_t guard_ = 0;
  Found found_;
};

// A lock that is a descriptor, and one that is a lease.
std::vector<Store> start_stores(const TempDir& dir) {
  std::vector<Store> stores;
  stores.push_back({"file", "", 0, false});
  auto redis = start_fixture("redis", dir / "redis");
  if (!redis) {
    std::printf("SKIPPED: no server of redis\n");
    return stores;
  }
  awaited.insert(redis->program.pid());
  // a freshly started server grants nothing for a minute
  const std::string url = redis->url + "/0?restart_grace=0&prefix=pairs{}:";
  stores.push_back({"redis", url, 2000, true, std::move(redis)});
  return stores;
}

}  // namespace

bool kill_pairs(const Programs& programs, const Options& o) {
  const bool full = o.has("--full");
  TempDir dir;
  const auto stores = start_stores(dir);
  const auto pairs = all_pairs();
  struct Place {
    const Store* store;
    const Pair* pair;
    std::vector<Found> found;
  };
  std::vector<Place> cells;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    for (const Store& s : stores) {
      const bool in_short = !pairs[i].second || pairs[i].gap_ms == 2;
      if ((full || in_short) && pairs[i].name().find(o.text("--only", "")) != std::string::npos)
        cells.push_back({&s, &pairs[i], {}});
    }
  const long runs = o.number("--runs", full ? 3 : 1);
  std::mutex mutex;
  std::size_t next = 0;
  const std::size_t total = cells.size() * std::size_t(runs);
  const auto work = [&] {
    for (std::unique_lock lock(mutex); next < total;) {
      Place& cell = cells[next++ % cells.size()];
      lock.unlock();
      Found f = PairRun(programs, *cell.store, *cell.pair).go();
      lock.lock();
      for (const auto& what : f.wrong)
        std::fprintf(stderr, "%s: %s: %s\n", cell.store->name.c_str(), cell.pair->name().c_str(),
                     what.c_str());
      cell.found.push_back(std::move(f));
    }
  };
  std::vector<std::thread> threads;
  for (long i = 0; i < o.number("--parallel", 12); ++i) threads.emplace_back(work);
  for (auto& t : threads) t.join();

  std::printf(
      "members of 13 alive when the next contender was granted, per run; -: not granted; *: listed "
      "under NOT COVERED\n\n| "
      "%-34s |",
      "fault");
  for (const Store& s : stores) std::printf(" %-14s |", s.name.c_str());
  std::printf("\n|---|");
  for (std::size_t i = 0; i < stores.size(); ++i) std::printf("---|");
  bool good = true;
  for (const Pair& pair : pairs) {
    if (std::none_of(cells.begin(), cells.end(), [&](const Place& p) { return p.pair == &pair; }))
      continue;
    std::printf("\n| %-34s |", pair.name().c_str());
    for (const Store& store : stores) {
      std::string text;
      bool bad = false;
      const bool said = pair.may_survive(store.leased);
      for (const Place& c : cells) {
        if (c.pair != &pair || c.store != &store) continue;
        for (const Found& f : c.found) {
          text += (text.empty() ? "" : " ") + (f.living          ? std::to_string(*f.living)
                                               : f.wrong.empty() ? "-"
                                                                 : "?");
          bad = bad || !f.wrong.empty() || (f.living.value_or(0) > 0 && !said);
        }
        text += std::string(said ? " *" : "") + (bad ? " FAILED" : "");
      }
      std::printf(" %-14s |", text.c_str());
      good = good && !bad;
    }
  }
  std::printf("\n\n%s\n",
              good ? "no member outlived the lock except where the manual says so" : "FAILED");
  return good;
}

}  // namespace dlock::test
