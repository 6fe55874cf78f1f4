// SPDX-License-Identifier: Apache-2.0
// A follower and its client are cut off together: the follower still answers pings, and only a
// committed write would be proof.
// zookeeper_prove [--full]
//
// Needs root (network namespaces), and is skipped otherwise.
#include "support/prove.hpp"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include "support/zookeeper_client.hpp"
#include "util/fd.hpp"

using namespace dlock;
using namespace dlock::test;
using namespace dlock::prove;
using namespace std::chrono_literals;

namespace {

double ms(Clock::duration d) { return seconds(d) * 1e3; }
std::int64_t nanos() { return Clock::now().time_since_epoch().count(); }

int sh(const std::string& command) {
  std::fflush(stdout);
  return std::system(command.c_str());
}

// One run at a time on a machine, so that the next one can remove what a killed one left.
struct Network {
  Network() : turn(::open("/tmp/dlock-test-network", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    for (const Deadline end = later(Clock::now(), 100s);
         ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0; ::usleep(50'000))
      if (Clock::now() >= end) throw std::runtime_error("another run has the network");
    down();
    sh("ip link add brdlz type bridge && ip addr add 10.213.8.254/24 dev brdlz && ip link set "
       "brdlz up");
    for (int i = 1; i <= 3; ++i)
      sh(
          fmt::format("ip netns add dlz{0} && ip link add vdlz{0} type veth peer name eth0 netns "
                      "dlz{0} && ip link set vdlz{0} "
                      "master brdlz up && "
                      "ip netns exec dlz{0} sh -c 'ip link set lo up; ip addr add 10.213.8.{0}/24 "
                      "dev eth0; ip link set eth0 up'",
                      i));
  }
  ~Network() { down(); }
  static void down() {
    sh("for i in 1 2 3; do ip link del vdlz$i; ip netns del dlz$i; done 2>/dev/null; ip link del "
       "brdlz 2>/dev/null; true");
  }
  const Fd turn;
  static void cable(std::size_t i, bool up) {
    sh(fmt::format("ip link set vdlz{} {}", i + 1, up ? "up" : "down"));
  }
};

std::int64_t last_sign(const std::string& file) {
  std::int64_t t = 0;
  const Fd fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd || ::read(fd.get(), &t, sizeof t) != sizeof t) return 0;
  return t;
}

// The job here: it notes every millisecond that it lives, and ignores TERM.
[[noreturn]] void job(const char* file) {
  ::signal(SIGTERM, SIG_IGN);
  const int fd = ::open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (;;) {
    const std::int64_t t = nanos();
    if (::pwrite(fd, &t, sizeof t, 0) != sizeof t) ::_exit(1);
    ::usleep(1000);
  }
}

enum class Fault { cut, leader_stopped, leader_killed };
constexpr const char* names[] = {"follower and its clients cut off", "leader stopped for 4 s",
                                 "leader killed"};

// One dlock with a job, at a follower, and one that waits for it, at another server.
struct Pair {
  std::string key, sign;
  pid_t holder = -1;
  std::unique_ptr<Backend> second;
  std::unique_ptr<Waiter> waiter;
  std::optional<Lease> granted;
  std::int64_t granted_at = 0, died_at = 0;
  int status = -1;  // of the holder; -1: still running

  bool ended() { return status != -1 || ::waitpid(holder, &status, WNOHANG) == holder; }
};

class Cuts {
 public:
  Cuts(const char* self, const char* dlock, Duration tick, Duration ttl)
      : self_(self), dlock_(dlock), tick_(tick), ttl_(ttl) {
    ZookeeperEnsemble::Setup setup;
    setup.tick = tick;
    for (std::size_t i = 0; i < 3; ++i) {
      setup.addresses[i] = fmt::format("10.213.8.{}", i + 1);
      setup.prefixes[i] = {"ip", "netns", "exec", fmt::format("dlz{}", i + 1)};
    }
    ensemble_ = std::make_unique<ZookeeperEnsemble>(setup);
  }

  void run(Fault fault, int rounds, int at_once) {
    std::vector<double> slacks;
    int ended = 0, lived = 0;
    for (int round = 0; round < rounds; ++round) {
      leader_ = ensemble_->leader(), mine_ = ensemble_->follower(),
      other_ = ensemble_->follower(mine_);
      std::vector<Pair> pairs(static_cast<std::size_t>(at_once));
      for (Pair& p : pairs) begin(p);
      for (Pair& p : pairs) wait_behind(p);
      const Deadline until =
          later(Clock::now(), Duration{500'000 + static_cast<long>(random_() % 1'500'000)});
      while (Clock::now() < until) poll(pairs);
      const std::int64_t at = nanos();
      inflict(fault, pairs);
      // The job is followed as soon as the servers have noticed, on a busy machine some time later.
      for (const Deadline end = later(Clock::now(), 3 * ttl_ + 120s);
           Clock::now() < end && !settled(pairs);)
        poll(pairs);
      for (Pair& p : pairs) {
        if (!p.granted) {  // no second grant: the job may live on, and its end is ordinary
          if (!p.ended()) ::kill(p.holder, SIGKILL), ++lived;
          continue;
        }
        ++ended;
        slacks.push_back(static_cast<double>(p.granted_at - p.died_at) / 1e6);
        fmt::print(
            "  {}: the job's last note {:+.0f} ms, the second grant {:+.0f} ms: slack {:.0f} ms\n",
            names[static_cast<int>(fault)], static_cast<double>(p.died_at - at) / 1e6,
            static_cast<double>(p.granted_at - at) / 1e6, slacks.back());
        must(slacks.back() > 0 && last_sign(p.sign) == p.died_at,
             "the job is dead before the second client is granted");
      }
      mend(fault);
      for (Pair& p : pairs) {
        if (!p.ended()) ::waitpid(p.holder, &p.status, 0);
        if (p.granted && fault == Fault::cut)
          must(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 123, "dlock ends with 123");
      }
      std::fflush(stdout);
    }
    fmt::print(
        "{}, tick {:.0f} ms, session {:.0f} s, {} jobs: {} ended and were followed, {} lived on; "
        "smallest slack {:.0f} ms, "
        "median {:.0f} ms\n",
        names[static_cast<int>(fault)], ms(tick_), ms(ttl_) / 1000, ended + lived, ended, lived,
        quantile(slacks, 0), quantile(slacks, 0.5));
    must(fault != Fault::cut || lived == 0,
         "the lock of a client that is cut off passes to the next");
  }

 private:
  void begin(Pair& p) {
    p.key = fmt::format("cut{}", number_);
    p.sign = fmt::format("{}/sign{}", directory_.path(), number_++);
    const std::string ns = fmt::format("dlz{}", mine_ + 1),
                      url = (*ensemble_)[mine_].url() + "/cut", ttl = fmt::format("{}s", ttl_ / 1s);
    p.holder = ::fork();
    if (p.holder != 0) return;
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0);
    ::dup2(null, 2);
    ::execlp("ip", "ip", "netns", "exec", ns.c_str(), dlock_, "run", "-b", url.c_str(), "--ttl",
             ttl.c_str(), "--key", p.key.c_str(), "--", self_, "--job", p.sign.c_str(), nullptr);
    ::_exit(127);
  }

  void wait_behind(Pair& p) {
    for (const Deadline end = Clock::now() + 60s; last_sign(p.sign) == 0 && Clock::now() < end;)
      ::usleep(5000);
    p.second = open_zookeeper(fmt::format("zookeeper://{},{}/cut", (*ensemble_)[leader_].host(),
                                          (*ensemble_)[other_].host()));
    p.waiter = p.second->enqueue(request(*Key::parse(p.key), 20s)).value();
    for (const Deadline end = Clock::now() + 60s;;) {
      const auto answer = p.waiter->poll(50ms);
      if (answer && std::holds_alternative<Waiting>(*answer)) return;
      if (answer || Clock::now() >= end)
        throw std::runtime_error("the second client does not wait");
    }
  }

  void inflict(Fault fault, std::vector<Pair>& pairs) {
    if (fault == Fault::cut) return Network::cable(mine_, false);
    if (fault == Fault::leader_killed) return (*ensemble_)[leader_].kill();
    (*ensemble_)[leader_].freeze();
    for (const Deadline end = Clock::now() + 4s; Clock::now() < end;) poll(pairs);
    (*ensemble_)[leader_].thaw();
  }

  void mend(Fault fault) {
    if (fault == Fault::cut) Network::cable(mine_, true);
    if (fault == Fault::leader_killed) (*ensemble_)[leader_].start();
  }

  static bool settled(std::vector<Pair>& pairs) {
    return std::all_of(pairs.begin(), pairs.end(),
                       [](const Pair& p) { return p.granted.has_value(); });
  }

  void poll(std::vector<Pair>& pairs) {
    for (Pair& p : pairs) {
      if (p.granted) continue;
      const auto answer = p.waiter->poll(5ms);
      const std::int64_t now = nanos();
      if (!answer && !retryable(answer.error().code))
        throw std::runtime_error(answer.error().message);
      if (!answer) continue;
      if (const auto* g = std::get_if<Granted>(&*answer)) {
        p.granted_at = now;
        p.died_at = last_sign(p.sign);
        p.granted = g->lease;
      }
    }
  }

  const char* const self_;
  const char* const dlock_;
  const Duration tick_, ttl_;
  const Network network_;
  const TestDirectory directory_;
  std::unique_ptr<ZookeeperEnsemble> ensemble_;
  std::mt19937 random_{static_cast<unsigned>(nanos())};
  std::size_t leader_ = 0, mine_ = 0, other_ = 0;
  int number_ = 0;
};

void cut(const char* self, bool full) {
  const char* dlock = std::getenv("DLOCK");
  if (!dlock || ::geteuid() != 0 || sh("ip netns list >/dev/null 2>&1") != 0) {
    fmt::print("cut: left out, it needs root and DLOCK\n");
    return;
  }
  Cuts cuts{self, dlock, 2000ms, 4s};
  cuts.run(Fault::cut, full ? 10 : 1, full ? 5 : 2);
  if (!full) return;
  cuts.run(Fault::leader_stopped, 5, 5);
  cuts.run(Fault::leader_killed, 5, 5);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view{argv[1]} == "--job") job(argv[2]);
  if (const char* program = missing_zookeeper()) return without(program);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    cut(argv[0], argc == 2 && std::string_view{argv[1]} == "--full");
  } catch (const std::exception& e) { must(false, e.what()); }
  return failed ? 1 : 0;
}
