// SPDX-License-Identifier: Apache-2.0
#include "simulation/scenario.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include "file/factory.hpp"
#include "redis/factory.hpp"
#include "simulation/ensemble.hpp"
#include "simulation/ledger.hpp"
#include "simulation/lock_files.hpp"
#include "simulation/network.hpp"
#include "simulation/store.hpp"
#include "zookeeper/factory.hpp"

namespace dlock::simulation {
namespace {

// After the last fault and the grace behind it: the claim of a waiter that was invited and is gone,
// the patience of the next one, and the longest pause between two tries.
constexpr Nanos hand_over_bound = 2 * second + 10 * second + 3 * second;
constexpr unsigned permits = 2;
constexpr Nanos longest_end = 1200 * second;  // all rounds are over so long after the last fault

class Simulation {
 public:
  Simulation(const Scenario& scenario, Schedule& schedule, Stacks& stacks, bool told,
             const Look& look)
      : scenario_(scenario),
        world_(schedule, scenario.seed, scenario.faults_until, stacks, told),
        ledger_(world_),
        server_(make_server(scenario, world_, ledger_)),
        store_(*server_),
        network_(world_, store_) {
    World::current() = &world_;
    world_.uniform = scenario.uniform;
    store_.join(network_);
    if (look)
      world_.on_point = [this, &look](std::uint64_t number, Point where) {
        return look(number, where, state(where));
      };
    for (std::size_t i = 0; i < scenario.machines.size(); ++i) seats_.push_back(seat(i));
  }
  ~Simulation() {
    for (auto& s : seats_) s->parties.clear();  // while the network and the store are there
    World::current() = nullptr;
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  Outcome run() {
    for (auto& s : seats_) next(*s);
    world_.after(second, 0, [this] { watch(); });
    world_.run([this] { return over(); }, scenario_.faults_until + longest_end);
    return {world_.what_broke(),
            world_.decisions(),
            world_.story(),
            ledger_.grants,
            ledger_.jobs,
            ledger_.overlaps_excused,
            ledger_.stale_writes_refused,
            world_.cut_short()};
  }

 private:
  struct Seat {
    std::size_t number = 0;
    std::shared_ptr<Machine> machine;
    std::size_t begun = 0;
    bool starting = false;
    std::vector<std::unique_ptr<Party>> parties;
  };

  std::unique_ptr<Seat> seat(std::size_t number) {
    auto s = std::make_unique<Seat>();
    s->number = number;
    if (scenario_.kind == StoreKind::file && number > 0) {
      s->machine = seats_.front()->machine;  // one for all
      return s;
    }
    s->machine = std::make_shared<Machine>();
    s->machine->started = static_cast<Nanos>(1000 + 500 * number) * second;
    if (!scenario_.uniform)
      s->machine->ppm = static_cast<std::int64_t>(world_.dice.below(10'001)) - 5000;
    return s;
  }

  void next(Seat& s) {
    const auto& rounds = scenario_.machines[s.number];
    if (s.starting || s.begun == rounds.size()) return;
    s.starting = true;
    const Round& round = rounds[s.begun];
    world_.after(round.pause, mixed(40, s.number), [this, &s, &round] {
      s.starting = false;
      ++s.begun;
      const std::uint64_t seed = mixed(scenario_.seed, 1000 * (s.number + 1) + s.begun);
      s.parties.push_back(std::make_unique<Party>(
          world_, network_, ledger_, *s.machine,
          fmt::format("{}{}", static_cast<char>('A' + static_cast<char>(s.number)), s.begun), seed,
          round.plan));
      s.parties.back()->begin();
    });
  }

  bool over() {
    bool all = true;
    for (auto& s : seats_) {
      const bool idle = s->parties.empty() || s->parties.back()->over();
      if (idle) next(*s);
      all = all && idle && !s->starting && s->begun == scenario_.machines[s->number].size();
    }
    return all;
  }

  // I6: no waiter is lost. Only when nothing has gone wrong for a while.
  void watch() {
    const bool quiet = world_.now() > world_.last_fault_over() + scenario_.grace + 2 * second;
    const bool waits = std::any_of(seats_.begin(), seats_.end(), [](const auto& s) {
      return !s->parties.empty() && s->parties.back()->alive() && !s->parties.back()->granted();
    });
    const bool granted = std::exchange(grants_seen_, ledger_.grants) != ledger_.grants;
    if (!quiet || !waits || !store_.empty() || granted) free_since_ = world_.now();
    if (world_.now() - free_since_ > hand_over_bound)
      world_.broken("I6: the lock is free, and nobody of those who wait gets it");
    if (!over()) world_.after(second, 0, [this] { watch(); });
  }

  std::uint64_t state(Point where) const {
    std::uint64_t h = mixed(static_cast<std::uint64_t>(world_.now()), world_.due_hash());
    h = mixed(mixed(h, network_.hash()), mixed(store_.hash(), ledger_.hash()));
    for (const auto& s : seats_) {
      h = mixed(h, s->begun * 2 + (s->starting ? 1U : 0U) + (s->machine->asleep ? 1000U : 0U));
      if (!s->parties.empty()) h = mixed(h, s->parties.back()->hash());
    }
    return mixed(h, static_cast<std::uint64_t>(where));
  }

  const Scenario& scenario_;
  World world_;
  Ledger ledger_;
  std::unique_ptr<Server> server_;
  Server& store_;
  Network network_;
  std::vector<std::unique_ptr<Seat>> seats_;
  Nanos free_since_ = 0;
  std::uint64_t grants_seen_ = 0;  // also of one that was over before the next look
};

// The stacks of all simulations, which come one after the other.
Stacks& all_stacks() {
  static Stacks stacks;
  return stacks;
}

const BackendFactory* factory_of(Scenario::Kind kind) {
  switch (kind) {
    case Scenario::Kind::zookeeper: return &zookeeper::factory;
    case Scenario::Kind::file: return &file::factory;
    case Scenario::Kind::redis: break;
  }
  return &redis::factory;
}

}  // namespace

std::unique_ptr<Server> make_server(const Scenario& s, World& world, Ledger& ledger) {
  if (s.kind == Scenario::Kind::zookeeper) return std::make_unique<Ensemble>(world, ledger);
  if (s.kind == Scenario::Kind::file) return std::make_unique<LockFiles>(world, ledger, permits);
  return std::make_unique<Store>(world, ledger, s.unconfirmed_one_in);
}

Outcome simulate(const Scenario& scenario, Schedule& schedule, bool told, const Look& look) {
  Outcome outcome;
  std::thread([&] {
    Simulation simulation{scenario, schedule, all_stacks(), told, look};
    outcome = simulation.run();
  }).join();
  return outcome;
}

Scenario Scenario::bare(Kind of, Nanos ttl) {
  Scenario s;
  s.kind = of;
  s.longest_ttl = ttl;
  RunPlan plan;
  plan.factory = factory_of(of);
  plan.ttl = ttl;
  plan.job.runs = ttl / 2;
  if (of == Kind::redis) {
    s.grace = 3 * second;
    plan.url = "redis://127.0.0.1:6379?restart_grace=3s";
  } else {
    plan.url = of == Kind::zookeeper ? "zookeeper://127.0.0.1:2181" : "file:///locks";
  }
  s.machines = {{{0, plan}}};
  return s;
}

Scenario Scenario::random(std::uint64_t seed, Kind of) {
  Dice dice{scrambled(seed, 2)};
  Scenario s;
  s.seed = seed;
  s.kind = of;
  const bool queue = of == Kind::zookeeper;
  const Nanos least = (queue ? 6 : 2) * second;
  const Nanos ttl =
      dice.one_in(2) ? least : dice.span(least, 20 * second) / millisecond * millisecond;
  s.longest_ttl = ttl;
  const bool confirmed = dice.one_in(3);
  if (confirmed) s.unconfirmed_one_in = 2 + dice.below(4);
  const bool short_grace = dice.one_in(2);
  s.grace = short_grace ? ttl + second : 30 * second;
  std::string url = fmt::format("redis://127.0.0.1:6379?replicas={}", confirmed ? 1 : 0);
  if (short_grace) url += fmt::format("&restart_grace={}ms", s.grace / millisecond);
  if (queue) url = "zookeeper://127.0.0.1:2181";
  if (of == Kind::file) {
    s.grace = 0;
    url = "file:///locks";
  }
  const std::uint64_t kind = dice.below(8);  // mostly exclusive
  s.faults_until = dice.span(ttl * 2, ttl * 8);
  s.machines.resize(2 + dice.below(3));
  const bool known_tick = queue && dice.one_in(2), delays = queue && dice.one_in(2);
  if (known_tick) url += "?tick=2s";
  for (auto& rounds : s.machines) {
    const Nanos own =
        queue && dice.one_in(2) ? dice.span(least, ttl) / millisecond * millisecond : ttl;
    const Nanos delay =
        delays && !dice.one_in(3)
            ? dice.span(millisecond, known_tick ? 30 * second : own / 2) / millisecond * millisecond
            : 0;
    rounds.resize(1 + dice.below(3));
    for (Round& round : rounds) {
      round.pause = dice.span(10 * millisecond, 2 * ttl);
      RunPlan& plan = round.plan;
      plan.url = url;
      plan.factory = factory_of(of);
      plan.ttl = own;
      plan.job.lock_delay = delay;
      if (kind == 6) plan.mode = dice.one_in(2) ? Mode::shared : Mode::exclusive;
      if (kind == 7) plan.mode = Mode::permit, plan.limit = permits;
      if (dice.one_in(6)) plan.wait = dice.span(ttl / 2, ttl * 8);
      plan.job.runs = dice.span(10 * millisecond, ttl * 4);
      if (!dice.one_in(3)) plan.job.ends_on_term = dice.span(millisecond, ttl / 4);
    }
  }
  return s;
}

std::string text(const std::vector<SessionSlot>& story) {
  std::string out;
  for (const SessionSlot& line : story)
    out += fmt::format("{:10.4f} s  {:<8} {}\n", static_cast<double>(line.at) / 1e9, line.who,
                       line.what);
  return out;
}

}  // namespace dlock::simulation
