// SPDX-License-Identifier: Apache-2.0
// Signals at random moments: no hang, no process left, and no status that is impossible at that
// moment.
#include <chrono>
#include <csignal>
#include <thread>
#include "signal_run.hpp"

namespace dlock::test {
namespace {

enum class Moment { waiting, starting, running, handled, ending, descendants };
constexpr int moments = 6;
const char* const moment_names[] = {"waiting", "starting", "running",
                                    "handled", "ending",   "descendants"};

struct Shot {
  int sig = 0;
  Moment moment = Moment::waiting;
  Mode mode = plain;
  double delay = 0;  // after the event that the shot waits for
};

RunAsked asked_for(const Shot& shot) {
  RunAsked a{.mode = shot.mode, .options = {"--ttl", "20s"}, .job = {"sh", "-c", ""}};
  std::string& script = a.job.back();
  switch (shot.moment) {
    case Moment::waiting: a.backend = "fake:?grant_after=60s", script = "exit 7"; break;
    case Moment::starting: script = "exit 7"; break;
    case Moment::running: script = "echo up; exec sleep 60"; break;
    case Moment::handled: a.job = {signal_job(), "exit", "9"}; break;
    case Moment::ending: script = "echo up; exit 7"; break;
    // A background job of a shell ignores INT and QUIT: then --kill-after ends it. (Not shorter for
    // the others: a job that ends by itself must be given the time for it.)
    case Moment::descendants:
      a.options.insert(a.options.end(), {"-k", "200ms"}), script = "sleep 60 & echo up; exit 7";
      break;
  }
  return a;
}

// The possible results, and no other.
bool allowed(const Shot& shot, const std::string& end) {
  const bool by_signal = end == describe(shot.sig);
  switch (shot.moment) {
    case Moment::waiting:
    case Moment::running: return by_signal;
    case Moment::handled: return end == "exit 9";
    default: return by_signal || end == "exit 7";
  }
}

void fire(const Shot& shot, Tally& tally) {
  DlockRun run(asked_for(shot));
  const std::string what = std::string(moment_names[int(shot.moment)]) + ", " + shot.mode.name +
                           ", " + describe(shot.sig) + " after " +
                           std::to_string(shot.delay * 1000) + " ms";
  const bool from_start = shot.moment == Moment::waiting || shot.moment == Moment::starting;
  if (!from_start)
    tally.check(run.out().next(20) == "up", what + ": the command did not start" + run.complaint());
  std::this_thread::sleep_for(std::chrono::duration<double>(shot.delay));
  run.dlock().signal(shot.sig);
  const std::string end = run.end(20);
  run.events().rest(1);
  tally.check(allowed(shot, end), what + ": " + end + run.complaint());
  tally.check(run.left().empty(), what + ": processes are left" + run.complaint());
  if (shot.moment == Moment::waiting)
    tally.check(!find(run.events().seen, "acquired"), what + ": it got a lock" + run.complaint());
}

}  // namespace

bool random_signals(std::size_t count, unsigned long seed) {
  Tally tally("signals HUP INT QUIT TERM USR1 USR2 ALRM at " + std::to_string(count) +
              " random moments");
  std::mt19937_64 random(seed);
  const auto any = [&](int n) { return std::uniform_int_distribution<>(0, n - 1)(random); };
  const int kinds[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};
  std::vector<Shot> shots(count);
  for (Shot& s : shots) {
    s.sig = kinds[any(7)];
    s.moment = Moment(any(moments));
    s.mode = any(2) ? plain : foreground;
    s.delay = std::uniform_real_distribution<>(
        0, s.moment == Moment::running || s.moment == Moment::handled ? 0.002 : 0.012)(random);
  }
  in_parallel(count, [&](std::size_t k) { fire(shots[k], tally); });
  return tally.report(", seed " + std::to_string(seed));
}

}  // namespace dlock::test
