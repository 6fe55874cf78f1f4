// SPDX-License-Identifier: Apache-2.0
#include "verdict.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include "history/invariants.hpp"
#include "support/process.hpp"
#include "support/prove.hpp"

namespace dlock::faults {
namespace {

using history::Event;
using history::What;

// Liveness alone: how fast a hand-over is depends on what else runs here. As long as a client
// waits.
constexpr std::int64_t free_at_most = 60'000'000'000;
// A queue is held for three times the ttl behind the fault, on a store that may have its grace.
constexpr std::int64_t heals_within = 60'000'000'000, queue_heals_within = 180'000'000'000;

std::string key_text(int key) { return fmt::format("fault-{}", key); }

struct Alive {
  std::int64_t from, until;
  std::uint64_t token;
  bool shared;
};

std::vector<const Slot*> slots(const Evidence& e) {
  std::vector<const Slot*> all;
  for (std::uint32_t i = 0; i < e.arena.slots_used; ++i)
    if (const Slot& s = e.arena.slots[i]; s.token != 0 && e.has(s.key)) all.push_back(&s);
  return all;
}

// By key: when each job ran, as it noted itself. A job that was stopped did not run meanwhile.
std::map<int, std::vector<Alive>> lives(const Evidence& e) {
  std::map<int, std::vector<Alive>> all;
  for (const Slot* s : slots(e)) {
    auto& of_key = all[s->key];
    if (s->awake != 0) {
      of_key.push_back({s->start, s->asleep, s->token, s->shared});
      of_key.push_back({s->awake, s->last, s->token, s->shared});
    } else {
      of_key.push_back({s->start, s->last, s->token, s->shared});
    }
  }
  return all;
}

void measure_overlap(const Evidence& e, Row& row) {
  for (auto& [key, of_key] : lives(e)) {
    std::sort(of_key.begin(), of_key.end(),
              [](const Alive& a, const Alive& b) { return a.from < b.from; });
    const Alive* open = nullptr;
    for (const Alive& next : of_key) {
      if (open && next.from < open->until && next.token != open->token &&
          !(next.shared && open->shared)) {
        ++row.overlaps;
        row.longest_overlap =
            std::max(row.longest_overlap, std::min(open->until, next.until) - next.from);
      }
      if (!open || next.until > open->until) open = &next;
    }
  }
}

Event line(const std::string& text) {
  auto event = history::parse(text);
  if (!event) test::give_up("not an event: " + text);
  return std::move(*event);
}

void add_faults(const Evidence& e, std::vector<Event>& events) {
  for (const Injection& i : e.injected) {
    if (i.key >= 0 && !e.has(i.key)) continue;
    events.push_back(line(
        fmt::format(R"({{"t":{},"pid":{},"ev":"fault","name":"{}","phase":"begin","key":"{}",)"
                    R"("fenced_only":{}}})",
                    i.begin, i.pid, i.name, i.key < 0 ? "all" : key_text(i.key), i.fenced_only)));
    events.push_back(
        line(fmt::format(R"({{"t":{},"ev":"fault","name":"{}","phase":"end"}})", i.end, i.name)));
  }
  for (const std::string& name : e.left)
    events.push_back(line(fmt::format(R"({{"t":{},"ev":"left","name":"{}"}})", boot_ns(), name)));
}

// Tokens and the counter are judged apart: only what counts has a value.
void add_writes(const Evidence& e, std::vector<Event>& events, Row& row) {
  std::vector<const Write*> by_time;
  for (std::uint32_t i = 0; i < e.arena.writes_used; ++i)
    if (e.arena.writes[i].complete && e.has(e.arena.writes[i].key))
      by_time.push_back(&e.arena.writes[i]);
  std::sort(by_time.begin(), by_time.end(),
            [](const Write* a, const Write* b) { return a->t < b->t; });
  std::map<int, std::uint64_t> highest;
  for (const Write* w : by_time) {
    std::uint64_t& high = highest[w->key];
    if (w->accepted) {
      row.stale_accepted += w->token < high;
      high = std::max(high, w->token);
    } else {
      ++row.stale_refused;
    }
    const std::string text =
        fmt::format(R"({{"t":{},"ev":"write","key":"{} tokens","token":{},"accepted":{}}})", w->t,
                    key_text(w->key), w->token, w->accepted);
    events.push_back(line(text));
    if (w->value >= 0)
      events.push_back(line(
          fmt::format(R"({{"t":{},"ev":"write","key":"{} counter","value":{},"accepted":true}})",
                      w->t, key_text(w->key), w->value)));
  }
}

// What the jobs noted, as the history of those whose dlock could not write it.
void add_jobs(const Evidence& e, std::vector<Event>& events) {
  std::map<std::pair<std::string, std::uint64_t>, std::pair<std::string, std::int64_t>> granted;
  for (const Event& x : events)
    if (x.f == "acquire" && x.what == What::ok && x.token)
      granted[{x.key, *x.token}] = {x.owner, x.pid};
  std::set<std::string> released;             // owners
  std::map<std::string, std::int64_t> ended;  // by owner: when its dlock ended
  for (const Event& x : events) {
    if (x.f == "release" && x.what == What::ok) released.insert(x.owner);
    if (x.what == What::exit) ended[x.owner] = x.t;
  }
  std::set<std::int64_t> killed;
  for (const Injection& i : e.injected)
    if (i.killed) killed.insert(i.pid);
  std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::int64_t>> lived;
  for (const Slot* slot : slots(e)) {
    const Slot& s = *slot;
    const std::string key = key_text(s.key);
    const auto of = granted.find({key, s.token});
    if (of == granted.end()) continue;
    const std::string& owner = of->second.first;
    const auto pid = of->second.second;
    lived[{key, owner}] = {s.start, s.last};
    const auto add = [&](std::int64_t t, const char* ev, const char* f) {
      events.push_back(line(fmt::format(
          R"({{"t":{},"pid":{},"ev":"{}","f":"{}","key":"{}","owner":"{}","token":{}}})", t, pid,
          ev, f, key, owner, s.token.load())));
    };
    add(s.last, "alive", "job");
    // Without a release, the lock ended with its process and not at its deadline: dlock was killed,
    // or it ended after a job that it had to kill.
    if (!e.recipe.connection || released.count(owner) != 0) continue;
    if (killed.count(pid) != 0) add(s.last, "fail", "renew");
    else if (const auto end = ended.find(owner); end != ended.end())
      add(std::max(end->second, s.last.load()), "fail", "renew");
  }
  // A dlock that was stopped, or that does not get a processor, writes the start and the end of its
  // job late.
  for (Event& x : events)
    if (const auto it = lived.find({x.key, x.owner}); it != lived.end()) {
      if (x.what == What::child_start) x.t = std::min(x.t, it->second.first);
      if (x.what == What::tree_dead) x.t = std::min(x.t, it->second.second);
    }
}

void measure_next_grant(const Evidence& e, const std::vector<Event>& events, Row& row) {
  std::map<std::string, std::vector<std::int64_t>> grants;
  for (const Event& x : events)
    if (x.f == "acquire" && x.what == What::ok) grants[x.key].push_back(x.t);
  std::vector<std::int64_t> waits;
  for (const Injection& i : e.injected)
    for (const std::size_t k : e.keys) {
      if (i.key >= 0 && static_cast<std::size_t>(i.key) != k) continue;
      const auto& of_key = grants[key_text(static_cast<int>(k))];
      const std::int64_t from = i.killed ? i.begin : i.end;
      const auto next = std::lower_bound(of_key.begin(), of_key.end(), from);
      if (next != of_key.end()) waits.push_back(*next - from);
    }
  if (waits.empty()) return;
  row.next_p50 = prove::quantile(waits, 0.5);
  row.next_p99 = prove::quantile(waits, 0.99);
}

// How each dlock of a queue ended. Its holder may have lost its lease; and where the store has
// forgotten its grants, tokens alone protect.
void judge_ends(const Evidence& e, Row& row) {
  std::size_t jobs = 0;
  for (const End& end : e.ends) {
    std::string wanted = "exit 0";
    bool has_job = true;
    for (const Injection& i : e.injected) {
      if (i.pid != end.pid) continue;
      if (i.killed) wanted = "signal 9 (KILL)", has_job = i.holder;
      else if (i.stopped && i.holder && !e.recipe.attached) wanted = "exit 123";
    }
    jobs += has_job;
    const bool lost = end.number == 0 && end.how == "exit 123" && e.faults.loses();
    if (end.how != wanted && !lost)
      row.broken.push_back(fmt::format("dlock {} of {} ended with {}: {}\n", end.number,
                                       key_text(static_cast<int>(end.key)), end.how, end.said));
    if (end.said.find("too late") != end.said.npos)
      row.broken.push_back("granted too late: " + end.said);
  }
  if (row.jobs != jobs) row.broken.push_back(fmt::format("{} jobs ran, not {}\n", row.jobs, jobs));
}

// Tokens protect wherever exclusion is not promised; so these hold there, too.
bool always_promised(std::string_view invariant) {
  return invariant == "I4" || invariant == "I5" || invariant == "I7" || invariant == "I10";
}

std::string excerpt(const history::Violation& v) {
  std::string text = fmt::format("{}: {}\n", v.invariant, v.sentence);
  for (const Event* e : v.excerpt) text += fmt::format("  {}\n", e->line);
  return text;
}

}  // namespace

bool Evidence::has(int key) const {
  return std::find(keys.begin(), keys.end(), static_cast<std::size_t>(key)) != keys.end();
}

Row judge(const Evidence& e) {
  Row row;
  row.target = e.target;
  row.fault = e.faults.name();
  row.what = e.faults.what();
  row.not_covered = not_covered(e.recipe, e.faults);
  row.faults = e.injected.size();

  history::Reading reading;
  for (const std::string& file : e.traces) history::read(file, test::read_file(file), reading);
  if (!reading.error.empty()) row.broken.push_back(reading.error);
  row.torn = reading.torn;
  add_jobs(e, reading.events);
  add_writes(e, reading.events, row);
  add_faults(e, reading.events);
  history::sort_by_time(reading);
  measure_next_grant(e, reading.events, row);
  measure_overlap(e, row);

  const auto history = history::gather(reading.events);
  const auto verdict =
      history::check(history, {.hand_over = free_at_most,
                               .takeover = free_at_most,
                               .in_order = e.ordered,
                               .heal = e.queue ? queue_heals_within : heals_within});
  row.grants = verdict.figures.grants;
  row.jobs = verdict.figures.jobs;
  row.least_slack = verdict.figures.least_slack;
  row.p1_slack = verdict.figures.p1_slack;
  std::set<std::string_view> shown;
  for (const history::Violation& v : verdict.violations) {
    ++row.violations[std::string{v.invariant}];
    if ((row.not_covered.empty() || always_promised(v.invariant)) &&
        shown.insert(v.invariant).second)
      row.broken.push_back(excerpt(v));
  }
  for (const std::size_t k : e.keys) row.lost_updates += e.arena.resources[k].lost_updates();
  if (e.queue) judge_ends(e, row);
  else
    for (const End& end : e.ends)
      row.broken.push_back(fmt::format("dlock ended with {}: {}\n", end.how, end.said));
  if (row.stale_accepted != 0)
    row.broken.push_back(fmt::format("{} stale writes were accepted\n", row.stale_accepted));
  if (row.not_covered.empty()) {
    if (row.lost_updates != 0)
      row.broken.push_back(fmt::format("{} updates were lost\n", row.lost_updates));
    if (row.stale_refused != 0)
      row.broken.push_back(fmt::format("{} writes came with an old token\n", row.stale_refused));
    if (row.overlaps != 0)
      row.broken.push_back(fmt::format("two jobs ran at a time, {} times, for {:.1f} ms at most\n",
                                       row.overlaps, ms(row.longest_overlap)));
  }
  return row;
}

}  // namespace dlock::faults
