// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"
#include <fmt/format.h>
#include <pthread.h>
#include <algorithm>
#include <system_error>
#include <thread>
#include "bench/arena.hpp"
#include "bench/client.hpp"
#include "bench/watch.hpp"
#include "core/text.hpp"

namespace dlock::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t stack_size = 1 << 20;  // of each client's thread: small, so that hundreds fit
constexpr unsigned bare_commands = 200;
constexpr Duration to_connect = 30s;
constexpr unsigned removal_tries = 3;

// The clients of one measurement, as threads.
class Crew {
 public:
  explicit Crew(Arena& arena) : arena_(arena) {}
  ~Crew() { join(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  Result<void> start() {
    const unsigned clients = arena_.plan.clients;
    threads_.reserve(clients);
    try {
      for (unsigned i = 0; i < clients; ++i) threads_.emplace_back(work, std::ref(arena_), i);
    } catch (const std::system_error&) {
      return fail(Errc::unavailable, "--clients {}: only {} threads could be made", clients,
                  threads_.size());
    }
    return {};
  }
  void join() {
    if (!threads_.empty()) arena_.enter(Phase::over);
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

 private:
  Arena& arena_;
  std::vector<std::thread> threads_;
};

void use_small_stacks() {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, stack_size);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

std::string title(const Target& t, Scenario s) {
  return fmt::format("{} {} {}", t.backend, t.recipe, name_of(s));
}

class Bench {
 public:
  explicit Bench(const Plan& plan) : plan_(plan), progress_(plan) {}
  Result<Report> run();

 private:
  Result<void> open_empty(const Target&);
  Result<void> measure(const Target&, Scenario, Figures&);
  Result<void> measure_crash(const Target&, Figures&);
  Result<void> measure_all(Report&);
  std::vector<Key> keys_of_run(const Target&) const;
  Result<void> erase(const Target&) const;
  Result<std::optional<std::string>> left_over(const Target&) const;
  std::vector<std::string> clean();
  bool stopped() { return signals_.received() != 0; }

  const Plan& plan_;
  Signals signals_;
  ProgressLine progress_;
  std::vector<Nanoseconds> rtt_;
};

// Connects to the store, refuses a store that has keys below the prefix, and measures a bare
// command.
Result<void> Bench::open_empty(const Target& t) {
  progress_.report(fmt::format("{} {}: connecting", t.backend, t.recipe));
  TRY(backend, t.open(plan_.op_timeout, -1));
  TRY(there, list(*backend));
  if (!there.empty())
    return fail(Errc::usage,
                "--prefix {}: {} has keys below it ({}); only an empty one is used, "
                "because everything below it is removed at the end",
                quoted(plan_.prefix), backend->where(), quoted(there.front().key));
  Histogram h;
  const Key key = key_of(t, plan_.scenarios.front(), 0);
  for (unsigned i = 0; i < bare_commands && !stopped(); ++i) {
    const Deadline sent = Clock::now();
    TRY_VOID(backend->check(key, FencingToken{1}));
    h.record(Clock::now() - sent);
  }
  rtt_.push_back(h.percentile(50'000));
  return {};
}

Result<void> Bench::measure(const Target& t, Scenario s, Figures& f) {
  Arena arena(plan_, t, s);
  Crew crew(arena);
  if (auto started = crew.start(); !started) return started;
  const Nanoseconds whole = plan_.ops ? 0ns : Nanoseconds{plan_.duration};
  const auto broken = [&] { return stopped() || arena.violated || arena.fatal_error(); };

  const Deadline patience = later(Clock::now(), to_connect + plan_.connect_timeout);
  while (!broken() && !arena.all_ready()) {
    if (Clock::now() >= patience)
      return fail(Errc::unavailable, "{}: only {} of {} clients are connected", title(t, s),
                  arena.ready.load(), plan_.clients);
    sleep_until(patience, arena.event_fd(), signals_.fd());
  }
  arena.enter(Phase::warming);
  const auto stay = [&](Deadline until) {
    const Duration every = progress_.every();
    Deadline next = every > 0us ? later(Clock::now(), every) : no_deadline;
    while (!broken() && !arena.all_left() && Clock::now() < until) {
      sleep_until(std::min(until, next), arena.event_fd(), signals_.fd());
      if (Clock::now() < next) continue;
      next = later(Clock::now(), every);
      if (arena.phase() == Phase::measuring)
        progress_.show(title(t, s), arena, Clock::now() - arena.start(), whole);
    }
  };
  stay(later(Clock::now(), warm_up(plan_)));
  arena.enter(Phase::measuring);
  stay(plan_.ops ? no_deadline : later(Clock::now(), plan_.duration));
  const Nanoseconds took = Clock::now() - arena.start();
  crew.join();
  if (const auto e = arena.fatal_error()) return fail(*e);

  arena.add_to(f, std::chrono::duration<double>(took).count());
  return {};
}

Result<void> Bench::measure_crash(const Target& t, Figures& f) {
  Histogram h;
  const Deadline start = Clock::now();
  for (unsigned i = 0; i < crashes_per_round && !stopped() && !f.violated(); ++i) {
    progress_.report(fmt::format("{} {}/{}", title(t, Scenario::crash), i + 1, crashes_per_round));
    TRY(took, crash_once(plan_, t, signals_, f));
    if (took) h.record(*took);
  }
  f.rounds.emplace_back();
  f.latency[static_cast<std::size_t>(Latency::takeover)].add(h);
  f.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  return {};
}

Result<void> Bench::measure_all(Report& report) {
  const std::size_t n = plan_.targets.size();
  for (const Scenario s : plan_.scenarios)
    for (std::size_t i = 0; i < n; ++i) {
      const Target& t = plan_.targets[i];
      Figures f;
      f.backend = t.backend;
      f.recipe = t.recipe;
      f.scenario = s;
      f.clients = s == Scenario::crash ? 2 : plan_.clients;
      f.per_client.resize(s == Scenario::crash ? 0 : plan_.clients);
      f.wakes = t.traits->wakes;
      f.rtt = rtt_[i];
      f.skipped = cannot(*t.traits, s);
      const Duration ttl = plan_.ttl;
      if (s == Scenario::renew)
        f.renew_every = (t.proven_of ? t.proven_of(ttl) : ttl - drift(ttl)) / 3;
      report.runs.push_back(std::move(f));
    }
  for (unsigned round = 0; round < plan_.repeat; ++round)
    for (std::size_t s = 0; s < plan_.scenarios.size(); ++s)
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t at = (i + round) % n;  // each round begins with another target
        Figures& f = report.runs[s * n + at];
        if (!f.skipped.empty()) continue;
        const Target& t = plan_.targets[at];
        const auto done =
            f.scenario == Scenario::crash ? measure_crash(t, f) : measure(t, f.scenario, f);
        if (!done) return done;
        if (stopped() || f.violated()) return {};
      }
  return {};
}

std::vector<Key> Bench::keys_of_run(const Target& t) const {
  std::vector<Key> keys;
  for (const Scenario s : plan_.scenarios)
    for (Key& key : keys_of(t, s, plan_.clients)) keys.push_back(std::move(key));
  return keys;
}

// Removes, by name, the keys that this run may have written. Other keys may have appeared below our
// prefix meanwhile; they stay.
Result<void> Bench::erase(const Target& t) const {
  TRY(backend, t.open(plan_.op_timeout, -1));
  for (const Key& key : keys_of_run(t)) TRY_VOID(backend->erase(key));
  return {};
}

// Returns one of our keys that the store still has.
Result<std::optional<std::string>> Bench::left_over(const Target& t) const {
  TRY(backend, t.open(plan_.op_timeout, -1));
  TRY(views, list(*backend));
  const std::vector<Key> keys = keys_of_run(t);
  for (const KeyView& v : views)
    if (std::ranges::any_of(keys, [&](const Key& k) { return k.text() == v.key; }))
      return std::optional{v.key};
  return std::optional<std::string>{};
}

// Removes our keys. When all targets are done, checks each target again, because a store may carry
// out a request late if the connection broke after the request was sent. Returns what could not be
// removed.
std::vector<std::string> Bench::clean() {
  progress_.report("removing what was written");
  std::vector<std::string> failures;
  std::vector<const Target*> to_do;
  const auto failed = [&](const Target& t, std::string_view why) {
    failures.push_back(fmt::format("{} {}: what was written below {} is still there: {}", t.backend,
                                   t.recipe, quoted(plan_.prefix), why));
  };
  for (const Target& t : plan_.targets) to_do.push_back(&t);
  for (unsigned tries = 1; !to_do.empty(); ++tries) {
    std::vector<const Target*> removed, again;
    for (const Target* t : to_do)
      if (const auto gone = erase(*t)) removed.push_back(t);
      else failed(*t, gone.error().message);
    for (const Target* t : removed) {
      const auto left = left_over(*t);
      if (!left) failed(*t, left.error().message);
      else if (*left && tries == removal_tries)
        failed(*t, fmt::format("{} comes back", quoted(**left)));
      else if (*left) again.push_back(t);
    }
    to_do = std::move(again);
  }
  return failures;
}

Result<Report> Bench::run() {
  use_small_stacks();
  for (const Target& t : plan_.targets) {
    if (auto open = open_empty(t); !open) {
      if (open.error().code == Errc::denied)
        open.error().message += "; an account for some names alone needs a --prefix among them";
      return fail(std::move(open.error()));
    }
    if (stopped()) break;
  }
  Report report;
  report.began = wall_micros();
  report.host = this_host();
  Result<void> done;
  if (!stopped()) {
    done = measure_all(report);
    report.left = clean();
  }
  progress_.clear();
  if (!done) {
    std::string what = done.error().message;
    for (const std::string& left : report.left) what += "; " + left;
    return fail(done.error().code, std::move(what));
  }
  report.signal = signals_.received();
  for (Figures& f : report.runs)
    f.starved = static_cast<std::uint64_t>(std::ranges::count(f.per_client, 0U));
  return report;
}

}  // namespace

Result<Report> run(const Plan& plan) { return Bench(plan).run(); }

}  // namespace dlock::bench
