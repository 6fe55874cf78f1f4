// SPDX-License-Identifier: Apache-2.0
#include "simulation/party.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <new>
#include <stdexcept>
#include "run/events.hpp"
#include "run/wrap/wrapped.hpp"

// What those Keepers own that were never destroyed (party.hpp): their copies of the request and of the
// lease. Called by LeakSanitizer.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __lsan_default_suppressions();
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:^dlock::run::Keeper::Keeper\nleak:^dlock::run::Keeper::take\n";
}

namespace dlock::simulation {

using run::Keeper;
namespace event = run::event;

namespace {

Duration span(Nanos n) { return std::chrono::duration_cast<Duration>(std::chrono::nanoseconds{n}); }

run::Plan quiet_plan(const Traits& traits) {
  return {.open = {},
          .traits = traits,
          .request = {.key = *Key::parse("k"), .owner = {}, .identity = {}},
          .say = {.quiet = true}};
}

// Says nothing and writes nothing.
run::Events& no_events() {
  static const run::Plan plan = quiet_plan(Traits{});
  static run::Events& events = *new run::Events(plan);
  return events;
}

}  // namespace

class Party::TrackedWaiter final : public Waiter {
 public:
  TrackedWaiter(std::unique_ptr<Waiter> inner, std::vector<Waiter*>& all)
      : inner_(std::move(inner)), all_(all) {
    all_.push_back(this);
  }
  ~TrackedWaiter() override { std::erase(all_, this); }
  Result<Progress> poll(Duration slice) override { return inner_->poll(slice); }
  Result<void> cancel() override { return inner_->cancel(); }

 private:
  std::unique_ptr<Waiter> inner_;
  std::vector<Waiter*>& all_;
};

class Party::Tracked final : public run::Wrapped {
 public:
  Tracked(std::unique_ptr<Backend> inner, Backend*& opened, std::vector<Waiter*>& places)
      : Wrapped(std::move(inner)), opened_(opened), places_(places) {
    opened_ = this;
  }
  ~Tracked() override { opened_ = nullptr; }
  Result<std::unique_ptr<Waiter>> enqueue(const Request& r) override {
    auto made = inner_->enqueue(r);
    if (!made) return made;
    return std::make_unique<TrackedWaiter>(std::move(*made), places_);
  }

 private:
  Backend*& opened_;
  std::vector<Waiter*>& places_;
};

Party::Party(World& world, Network& network, Ledger& ledger, Machine& machine, std::string name,
             std::uint64_t seed, const RunPlan& asked)
    : Process(world, network, machine, std::move(name), seed),
      plan_(quiet_plan(asked.factory->recipes.front())),
      guard_(world, ledger, machine, Process::name(), asked.job, [this](const run::Message& m) {
        inbox_.push_back(m);
        changed();
      }) {
  world_.active = this;
  const Url url = Url::parse(asked.url).value();
  plan_.open = [this, url, factory = asked.factory](
                   const Settings& settings) -> Result<std::unique_ptr<Backend>> {
    auto opened = factory->open(url, factory->recipes.front(), settings);
    if (!opened) return opened;
    return std::make_unique<Tracked>(std::move(*opened), opened_, places_);
  };
  const bool leased = plan_.traits.liveness != Liveness::process;
  plan_.request.attached = !leased;
  plan_.request.owner = Owner::random();
  plan_.request.mode = asked.mode;
  plan_.request.limit = asked.limit;
  plan_.request.ttl = span(asked.ttl);
  plan_.request.lock_delay = span(asked.job.lock_delay);
  ttl_ = asked.ttl;
  steady_ = asked.url.find("replicas=1") == asked.url.npos;
  plan_.request.identity.host = "m";
  if (!leased) plan_.request.identity.reason.assign(300, 'r');  // a state of several blocks
  if (asked.wait) plan_.wait = span(*asked.wait);
  const auto timing = run::plan_timing(
      {plan_.request.ttl, {}, {}},
      plan_.traits.proven_of(plan_.request.ttl, plan_.request.lock_delay, url), leased);
  if (!timing) throw std::invalid_argument(timing.error().message);
  plan_.timing = *timing;
  run::Policy::Rules rules;
  rules.timing = plan_.timing;
  rules.wait = run::wait_rules(plan_);
  rules.can_detach = true;
  policy_ = std::make_unique<run::Policy>(rules);
  memory_ = std::make_unique<std::byte[]>(sizeof(Keeper));
  keeper_ = new (memory_.get()) Keeper(plan_, no_events());
  world_.active = nullptr;
}

Party::~Party() {
  die();
  world_.active = this;
  (void)keeper_->reports();
  while (!places_.empty()) delete places_.back();
  delete opened_;
  world_.active = nullptr;
}

void Party::begin() {
  if (world_.told()) world_.say(name(), "starts");
  world_.active = this;
  keeper_->start();
  world_.active = nullptr;
}

bool Party::wants_turn() const {
  if (!inbox_.empty() || guard_gone_ || swept_ || rings(keeper_->fd())) return true;
  const Deadline at = policy_->wake_at();
  return at != no_deadline && clock() >= at.time_since_epoch().count();
}

// As Supervisor::turn.
void Party::turn() {
  const Deadline now = Clock::now();
  std::vector<run::Event> events, rest;
  from_guard(events, rest);
  from_keeper(events);
  events.insert(events.end(), rest.begin(), rest.end());
  events.emplace_back(event::Tick{});
  for (const run::Event& e : events)
    for (const run::Action& a : policy_->step(e, now)) perform(a);
  if (policy_->over()) return die();
  if (const Deadline at = policy_->wake_at(); at != no_deadline)
    look_at(machine_.when(at.time_since_epoch().count()));
}

void Party::from_guard(std::vector<run::Event>& urgent, std::vector<run::Event>& rest) {
  for (const run::Message& m : std::exchange(inbox_, {})) {
    remember(static_cast<std::uint64_t>(m.kind) * 1000 + static_cast<std::uint64_t>(m.value));
    switch (m.kind) {
      case run::Kind::started: rest.emplace_back(event::JobStarted{}); break;
      case run::Kind::refused: rest.emplace_back(event::StartRefused{}); break;
      case run::Kind::expired:
        if (steady_ && quiet())
          world_.broken("I6: the lease of " + name() + " runs out, though nothing went wrong");
        urgent.emplace_back(event::Expired{});
        break;
      case run::Kind::killing: rest.emplace_back(event::Killing{}); break;
      case run::Kind::tree_dead:
        if (m.expired) urgent.emplace_back(event::Expired{});
        rest.emplace_back(event::TreeDead{m.value, m.expired});
        break;
      default: break;
    }
  }
  if (std::exchange(guard_gone_, false)) rest.emplace_back(event::GuardGone{});
  if (std::exchange(swept_, false)) rest.emplace_back(event::OwnSweepDone{});
}

void Party::from_keeper(std::vector<run::Event>& out) {
  for (Keeper::Report& report : keeper_->reports()) {
    remember(report.index() + 7000);
    if (auto* began = std::get_if<Keeper::Began>(&report)) {
      out.emplace_back(event::WaitBegan{began->at});
    } else if (auto* answered = std::get_if<Keeper::Answered>(&report)) {
      out.emplace_back(event::Answered{answered->asked_at});
    } else if (auto* none = std::get_if<Keeper::NoAnswer>(&report)) {
      if (world_.told()) world_.say(name(), "no answer: " + none->why);
      out.emplace_back(event::NoAnswer{!none->failed});
    } else if (auto* granted = std::get_if<Keeper::Granted>(&report)) {
      token_ = granted->lease.token;
      holds_ = std::move(granted->holds);
      if (world_.told()) world_.say(name(), fmt::format("has token {}", token_));
      out.emplace_back(event::Granted{granted->lease.deadline});
    } else if (auto* kept = std::get_if<Keeper::Kept>(&report)) {
      if (world_.told()) world_.say(name(), "its lease is renewed");
      out.emplace_back(event::Kept{kept->deadline});
    } else if (auto* failed = std::get_if<Keeper::RenewFailed>(&report)) {
      if (world_.told()) world_.say(name(), "a renewal failed: " + failed->why);
    } else if (auto* gone = std::get_if<Keeper::Gone>(&report)) {
      if (world_.told()) world_.say(name(), "lost: " + gone->why);
      out.emplace_back(event::KeeperLost{});
    } else if (auto* ended = std::get_if<Keeper::Ended>(&report)) {
      if (world_.told()) world_.say(name(), "its wait ended: " + ended->message);
      out.emplace_back(event::WaitEnded{ended->status, ended->busy});
    } else if (std::holds_alternative<Keeper::Left>(report)) {
      out.emplace_back(event::WaitLeft{});
    } else if (auto* released = std::get_if<Keeper::Released>(&report)) {
      if (world_.told())
        world_.say(name(), released->confirmed ? "released" : "not released: " + released->why);
      out.emplace_back(event::ReleaseDone{released->confirmed});
    }
  }
}

// The descriptors are in the message that starts the job.
void Party::start_job() {
  std::vector<OpenPtr> holds;
  for (const Fd& fd : holds_) holds.push_back(opened(fd.get()));
  holds_.clear();
  guard_.start(token_, policy_->deadlines(), std::move(holds));
}

void Party::perform(const run::Action& a) {
  using Do = run::Action::Do;
  switch (a.what) {
    case Do::start_job: return start_job();
    case Do::send_deadlines: return guard_.deadlines(policy_->deadlines());
    case Do::signal_all:
    case Do::send_signal: return guard_.signal_all();
    case Do::kill_guard:
      guard_.killed();
      guard_gone_ = true;
      return;
    case Do::sweep_own: swept_ = true; return;
    case Do::leave_queue: return keeper_->leave();
    case Do::queue_again:
      if (world_.told()) world_.say(name(), "the grant came too late: queues again");
      token_ = 0;
      holds_.clear();
      if (quiet())
        world_.broken("I6: a grant comes too late for " + name() + ", though nothing went wrong");
      return keeper_->queue_again(a.span);
    case Do::release: return keeper_->release();
    case Do::end:
      if (world_.told())
        world_.say(name(), fmt::format("ends: {} {}", a.outcome.result, a.outcome.value));
      return;
    // nobody asks for these here
    case Do::stop_self:
    case Do::withdraw_start:
    case Do::detach:
    case Do::say: return;
  }
}

std::uint64_t Party::hash() const noexcept { return mixed(alive() ? past() : 1, guard_.hash()); }

}  // namespace dlock::simulation
