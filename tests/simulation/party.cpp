// SPDX-License-Identifier: Apache-2.0
#include "simulation/party.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <iterator>
#include <new>
#include <stdexcept>
#include "report/output.hpp"
#include "store/wrapped.hpp"
#include "util/overloaded.hpp"

// What those Keepers own that were never destroyed (party.hpp): their copies of the request and of
// the lease. Called by LeakSanitizer.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __lsan_default_suppressions();
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:^dlock::run::Keeper::Keeper\nleak:^dlock::run::Keeper::accept\n";
}

namespace dlock::simulation {

using run::Keeper;
namespace event = run::event;
namespace action = run::action;

namespace {

Duration span(Nanos n) { return std::chrono::duration_cast<Duration>(std::chrono::nanoseconds{n}); }

run::Plan quiet_plan(const Traits& traits) {
  return {.open = {},
          .traits = traits,
          .request = {.key = *Key::parse("k"), .owner = {}, .identity = {}},
          .output = {.quiet = true}};
}

// Says nothing and writes nothing.
run::Output& no_output() {
  static const run::Plan plan = quiet_plan(Traits{});
  static run::Output& output = *new run::Output(plan);
  return output;
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

class Party::Tracked final : public Wrapped {
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
      guard_(world, ledger, machine, Process::name(), asked.job, [this](const run::GuardEvent& e) {
        inbox_.push_back(e);
        changed();
      }) {
  world_.active = this;
  const Url url = Url::parse(asked.url).value();
  const auto open = asked.factory->prepare(url, asked.factory->recipes.front(), {});
  plan_.open = [this, open = open.value()](Duration op_timeout,
                                           int interrupt_fd) -> Result<std::unique_ptr<Backend>> {
    auto opened = open(op_timeout, interrupt_fd);
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
  const auto timing =
      run::plan_timing({plan_.request.ttl, {}, {}},
                       plan_.traits.proven_of(plan_.request.ttl, plan_.request.lock_delay, url),
                       leased ? run::EndsBy::lease : run::EndsBy::descriptor);
  if (!timing) throw std::invalid_argument(timing.error().message);
  plan_.timing = *timing;
  static char word[] = "job";
  static char* const command[] = {word, nullptr};
  plan_.command = command;
  policy_ = std::make_unique<run::Policy>(plan_);
  memory_ = std::make_unique<std::byte[]>(sizeof(Keeper));
  keeper_ = new (memory_.get()) Keeper(plan_, no_output());
  world_.active = nullptr;
}

Party::~Party() {
  die();
  world_.active = this;
  (void)keeper_->events();
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
  std::move(rest.begin(), rest.end(), std::back_inserter(events));
  events.emplace_back(event::Tick{});
  for (const run::Event& e : events)
    for (const run::Action& a : policy_->step(e, now)) perform(a);
  if (policy_->over()) return die();
  if (const Deadline at = policy_->wake_at(); at != no_deadline)
    look_at(machine_.when(at.time_since_epoch().count()));
}

void Party::from_guard(std::vector<run::Event>& urgent, std::vector<run::Event>& rest) {
  for (const run::GuardEvent& e : std::exchange(inbox_, {})) {
    const auto* dead = std::get_if<event::TreeDead>(&e);
    remember(e.index() * 1000 + (dead ? static_cast<std::uint64_t>(dead->status) : 0));
    const bool expired = std::holds_alternative<event::Expired>(e);
    if (expired && steady_ && quiet())
      world_.broken("I6: the lease of " + name() + " runs out, though nothing went wrong");
    if (dead && dead->expired) urgent.emplace_back(event::Expired{});
    (expired ? urgent : rest).emplace_back(e);
  }
  if (std::exchange(guard_gone_, false)) rest.emplace_back(event::GuardGone{});
  if (std::exchange(swept_, false)) rest.emplace_back(event::OwnSweepDone{});
}

void Party::from_keeper(std::vector<run::Event>& out) {
  for (run::KeeperEvent& e : keeper_->events()) {
    remember(e.index() + 7000);
    if (auto* granted = std::get_if<event::Acquired>(&e)) {
      token_ = granted->leases.front().token;
      holds_ = std::move(granted->holds);
    }
    if (world_.told()) tell(e);
    out.emplace_back(std::move(e));
  }
}

void Party::tell(const run::KeeperEvent& e) {
  const auto say = [this](const std::string& text) { world_.say(name(), text); };
  if (const auto* none = std::get_if<event::NoAnswer>(&e)) say("no answer: " + none->why);
  if (std::holds_alternative<event::Acquired>(e)) say(fmt::format("has token {}", token_));
  if (std::holds_alternative<event::Renewed>(e)) say("its lease is renewed");
  if (const auto* f = std::get_if<event::RenewFailed>(&e)) say("a renewal failed: " + f->why);
  if (const auto* gone = std::get_if<event::KeeperLost>(&e)) say("lost: " + gone->why);
  if (const auto* ended = std::get_if<event::WaitEnded>(&e))
    say("its wait ended: " + ended->message);
  if (const auto* done = std::get_if<event::ReleaseDone>(&e))
    say(done->confirmed ? "released" : "not released: " + done->why);
}

// The descriptors are in the message that starts the job.
void Party::start_job() {
  std::vector<OpenPtr> holds;
  for (const Fd& fd : holds_) holds.push_back(opened(fd.get()));
  holds_.clear();
  guard_.start(token_, policy_->deadlines(), std::move(holds));
}

void Party::perform(const run::Action& a) {
  const auto cases = Overloaded{
      [&](const action::StartJob&) { start_job(); },
      [&](const action::SendDeadlines&) { guard_.deadlines(policy_->deadlines()); },
      [&](const action::SendSignal&) { signal_tree(); },
      [&](const action::SignalTree&) { signal_tree(); },
      [&](const action::KillGuard&) {
        guard_.killed();
        guard_gone_ = true;
      },
      [&](const action::SweepOwn&) { swept_ = true; },
      [&](const action::End& end) {
        if (world_.told())
          world_.say(name(), fmt::format("ends: {} {}", run::result_name(end.outcome.how),
                                         end.outcome.value));
      },
      [&](const run::KeeperAction& request) { post(request); },
      [](const auto&) {}};  // nobody asks for these here
  std::visit(cases, a);
}

void Party::signal_tree() {
  guard_.signal_all();
  guard_.deadlines(policy_->deadlines());
}

void Party::post(const run::KeeperAction& request) {
  if (std::holds_alternative<action::QueueAgain>(request)) {
    if (world_.told()) world_.say(name(), "the grant came too late: queues again");
    token_ = 0;
    holds_.clear();
    if (quiet())
      world_.broken("I6: a grant comes too late for " + name() + ", though nothing went wrong");
  }
  // the stores here keep no record of the last run
  if (std::holds_alternative<action::Release>(request))
    return keeper_->post(action::Release{.outcome = {.how = run::Outcome::How::failed}});
  keeper_->post(request);
}

std::uint64_t Party::hash() const noexcept { return mixed(alive() ? past() : 1, guard_.hash()); }

}  // namespace dlock::simulation
