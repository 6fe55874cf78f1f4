// SPDX-License-Identifier: Apache-2.0
// What recipe file/lease promises, counted through the Backend interface.
//   file_prove contend [GRANTS [KILL_EVERY]]   8 processes on one key, one killed (-9) about every
//   KILL_EVERY grants
//   file_prove crowd N [TIMES]                  N processes change one key at once, each TIMES: no
//   change is lost; how long the slowest took is printed
// Ends with 1 on any violation. The ledger is shared memory; each holder notes itself there before
// it releases. A process of a busy machine may get no turn for seconds: here nobody gives up for
// that, and no waiter loses its place for it.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>
#include "file/factory.hpp"
#include "support/temp_dir.hpp"

using namespace dlock;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t most = 1024;

struct Contender {
  std::atomic<std::uint64_t> asked,
      queued;  // ledger clock before the first try, and after that try queued us; 0: not waiting
  std::atomic<bool> inside;
  std::atomic<bool> doomed;  // about to be killed: it cannot note its release
};
struct Ledger {
  std::atomic<std::uint64_t> clock{1}, grants, overlaps, inversions, overtakes, last_token,
      slowest;  // of the changes of a crowd, in microseconds
  std::atomic<int> errors;
  Contender contender[most];
};

Ledger& ledger() {
  static Ledger& l = *new (::mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Ledger;
  return l;
}

std::unique_ptr<Backend> open_patient(const std::string& dir) {
  file::Tuning tuning;
  tuning.claim = Duration{10min}.count();
  return file::open_lease(dir, {.op_timeout = 10min}, tuning);
}

Request request(const char* key) {
  return {.key = *Key::parse(key),
          .owner = Owner::random(),
          .ttl = 30s,
          .identity = Identity::mine("prove")};
}

// A contender; it dies with this program, however that ends.
pid_t fork_contender() {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0 && (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)) ::_exit(1);
  return pid;
}

// One acquisition by contender `me`. False: an error.
bool take(Backend& b, const Request& r, std::size_t me, std::optional<Lease>& lease) {
  Ledger& l = ledger();
  Contender& c = l.contender[me];
  c.queued = 0;
  c.asked = l.clock++;
  auto place = b.enqueue(r);
  for (Duration slice{}; place;) {
    const auto answer = (*place)->poll(slice);
    if (!answer) return std::fprintf(stderr, "%s\n", answer.error().message.c_str()), false;
    if (const auto* g = std::get_if<Granted>(&*answer)) {
      lease = g->lease;
      return true;
    }
    if (c.queued == 0) c.queued = l.clock++;  // contenders that ask from now on come after us
    slice = 10s;
  }
  return false;
}

// While holding: no other holder, a higher token than ever, and no waiter that was queued before
// us.
void enter(std::size_t me, const Lease& lease) {
  Ledger& l = ledger();
  l.contender[me].inside = true;
  if (lease.token <= l.last_token.exchange(lease.token)) ++l.inversions;
  const std::uint64_t asked = l.contender[me].asked;
  for (std::size_t i = 0; i < most; ++i) {
    const Contender& o = l.contender[i];
    const std::uint64_t queued = o.queued;
    if (i == me || o.doomed) continue;
    if (o.inside) ++l.overlaps;
    if (queued != 0 && queued < asked) ++l.overtakes;
  }
  l.contender[me].queued = 0;
  ++l.grants;
}

[[noreturn]] void contend(const std::string& dir, std::size_t me, std::uint64_t goal) {
  const auto b = open_patient(dir);
  while (ledger().grants < goal) {
    std::optional<Lease> lease;
    if (!take(*b, request("k"), me, lease)) ++ledger().errors, ::_exit(1);
    enter(me, *lease);
    ledger().contender[me].inside = false;
    if (!b->release(*lease)) ++ledger().errors;
  }
  ::_exit(0);
}

int report_violations(const char* what) {
  const Ledger& l = ledger();
  const bool bad = l.overlaps + l.inversions + l.overtakes + std::uint64_t(l.errors) > 0;
  std::printf("%s: %lu grants, %lu overlaps, %lu tokens not rising, %lu overtakes, %d errors%s\n",
              what, l.grants.load(), l.overlaps.load(), l.inversions.load(), l.overtakes.load(),
              l.errors.load(), bad ? "  FAIL" : "");
  return bad ? 1 : 0;
}

int prove_contend(const std::string& dir, std::uint64_t goal, std::uint64_t kill_every) {
  constexpr std::size_t n = 8;
  Ledger& l = ledger();
  pid_t pids[n];
  const auto start = [&](std::size_t i) {
    l.contender[i].queued = 0;
    l.contender[i].inside = l.contender[i].doomed = false;
    if ((pids[i] = fork_contender()) == 0) contend(dir, i, goal);
  };
  for (std::size_t i = 0; i < n; ++i) start(i);
  std::mt19937 random(std::random_device{}());
  std::uint64_t next_kill = kill_every, kills = 0;
  while (l.grants < goal && l.errors == 0) {
    ::usleep(200 + static_cast<useconds_t>(random() % 300));
    if (l.grants < next_kill) continue;
    next_kill = l.grants + kill_every / 2 + random() % kill_every;
    const std::size_t victim = random() % n;
    l.contender[victim].doomed = true;
    ::kill(pids[victim], SIGKILL);
    int status = 0;
    ::waitpid(pids[victim], &status, 0);
    if (!WIFSIGNALED(status)) continue;  // it was done
    ++kills;
    start(victim);
  }
  for (const pid_t p : pids) ::waitpid(p, nullptr, 0);
  std::printf("%lu of the contenders were killed\n", kills);
  return report_violations("contend, 8 processes");
}

std::size_t entries(const std::string& dir) {
  std::size_t n = 0;
  if (DIR* d = ::opendir(dir.c_str())) {
    while (const dirent* e = ::readdir(d)) n += e->d_name[0] != '.';
    ::closedir(d);
  }
  return n;
}

// As many permits as contenders: they wait for nothing but the lock of the state.
[[noreturn]] void change_often(const std::string& dir, std::size_t n, std::uint64_t times,
                               int gate) {
  Ledger& l = ledger();
  const auto b = open_patient(dir);
  Request r = request("crowd");
  r.mode = Mode::permit;
  r.limit = static_cast<unsigned>(n);
  char none;
  (void)!::read(gate, &none, 1);  // until the gate is closed
  for (std::uint64_t i = 0; i < times; ++i) {
    for (const bool release : {false, true}) {
      static std::optional<Lease> lease;
      bool good = false;
      const Deadline began = Clock::now();
      if (release) {
        good = b->release(*lease).has_value();
      } else {
        r.owner = Owner::random();
        auto place = b->enqueue(r);
        const auto answer = (*place)->poll(0s);
        if (!answer) std::fprintf(stderr, "%s\n", answer.error().message.c_str());
        good = answer && std::holds_alternative<Granted>(*answer);
        if (good) lease = std::get<Granted>(*answer).lease;
      }
      if (!good) ++l.errors, ::_exit(1);
      const auto took = static_cast<std::uint64_t>((Clock::now() - began) / 1us);
      for (std::uint64_t most_yet = l.slowest; took > most_yet;)
        if (l.slowest.compare_exchange_weak(most_yet, took)) break;
      ++l.grants;
    }
  }
  ::_exit(0);
}

int prove_crowd(const std::string& dir, std::size_t n, std::uint64_t times) {
  Ledger& l = ledger();
  int gate[2];
  if (::pipe2(gate, O_CLOEXEC) != 0) return 1;
  std::vector<pid_t> pids;
  for (std::size_t i = 0; i < n; ++i) {
    pids.push_back(fork_contender());
    if (pids.back() != 0) continue;
    ::close(gate[1]);
    change_often(dir, n, times, gate[0]);
  }
  ::close(gate[1]);
  for (const pid_t p : pids) ::waitpid(p, nullptr, 0);
  const std::size_t left = entries(dir + "/crowd") - 1;  // all but the state
  const bool bad = l.errors || l.grants != 2 * n * times || left != 0;
  std::printf("crowd %zu: %lu changes, %d errors, %zu files left; the slowest took %.0f ms%s\n", n,
              l.grants.load(), l.errors.load(), left, static_cast<double>(l.slowest.load()) / 1e3,
              bad ? "  FAIL" : "");
  return bad;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int at, std::uint64_t otherwise) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  const test::TempDir dir;
  if (what == "contend") return prove_contend(dir.path(), number(2, 8000), number(3, 50));
  if (what == "crowd")
    return prove_crowd(dir.path(), std::min<std::size_t>(number(2, 500), most), number(3, 5));
  std::fprintf(stderr, "usage: file_prove contend|crowd [N]\n");
  return 64;
}
