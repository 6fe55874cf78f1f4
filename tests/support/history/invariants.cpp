// SPDX-License-Identifier: Apache-2.0
#include "history/invariants.hpp"
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <utility>
#include "history/sweep.hpp"

namespace dlock::history {
namespace {

double ms(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

class Check {
 public:
  Check(const History& history, const Bounds& bounds) : h_(history), bounds_(bounds) {}

  Verdict run() {
    for (const auto& [key, attempts] : h_.by_key) {
      grants_exclude(attempts);
      jobs_exclude(attempts);
      tokens_rise(attempts);
      hand_overs(attempts);
      releases(attempts);
      if (bounds_.in_order) order(attempts);
    }
    for (const Attempt& a : h_.attempts) {
      dead_in_time(a);
      ends(a);
      healed(a);
      exit_agrees(a);
      starts_only_when_granted(a);
    }
    for (const auto& [key, writes] : h_.writes) resource(writes);
    for (const Event* e : h_.left) violated("I7", fmt::format("{} was left behind", e->name), {e});
    for (const Event* e : h_.unmatched_releases)
      violated("I8", "a release ended a grant that this history does not know", {e});
    slack();
    v_.figures.faults = h_.faults.size();
    return std::move(v_);
  }

 private:
  using Attempts = std::vector<const Attempt*>;

  void violated(std::string_view invariant, std::string sentence,
                std::vector<const Event*> excerpt) {
    std::erase(excerpt, nullptr);
    std::stable_sort(excerpt.begin(), excerpt.end(),
                     [](const Event* a, const Event* b) { return a->t < b->t; });
    excerpt.erase(std::unique(excerpt.begin(), excerpt.end()), excerpt.end());
    v_.violations.push_back({invariant, std::move(sentence), std::move(excerpt)});
  }

  // I1. A release of unknown outcome counts as the end of its grant from its request on: the safe
  // side.
  void grants_exclude(const Attempts& attempts) {
    std::vector<Interval> windows;
    for (const Attempt* a : attempts)
      if (a->granted) windows.push_back({a->granted->t, a->held_until(), a}), ++v_.figures.grants;
    sweep(std::move(windows), [&](const Interval& open, const Interval& next) {
      violated(
          "I1",
          fmt::format("{} was granted to {} with {:.1f} ms of the grant to {} left", next.of->key,
                      next.of->owner, ms(open.until - next.from), open.of->owner),
          {open.of->invoke, open.of->granted,
           open.of->has_deadline() ? open.of->deadlines.back() : nullptr, open.of->release,
           next.of->invoke, next.of->granted});
    });
  }

  // I2. Where dlock was killed, the job's own events show how long it lived at least.
  void jobs_exclude(const Attempts& attempts) {
    std::vector<Interval> windows;
    for (const Attempt* a : attempts) {
      if (!a->started) continue;
      ++v_.figures.jobs;
      const Event* until = a->dead ? a->dead : a->last_alive;
      windows.push_back({a->started->t, until ? until->t : a->started->t, a});
    }
    sweep(std::move(windows), [&](const Interval& open, const Interval& next) {
      const std::int64_t overlap = std::min(open.until, next.until) - next.from;
      if (h_.fault_within(next.from, open.until, true)) {
        v_.figures.excused_overlap += overlap;
        return;
      }
      violated(
          "I2", fmt::format("two jobs under {} for {:.1f} ms", open.of->key, ms(overlap)),
          {open.of->granted, open.of->started, open.of->dead ? open.of->dead : open.of->last_alive,
           next.of->granted, next.of->started});
    });
  }

  // I3
  void dead_in_time(const Attempt& a) {
    if (!a.started || !a.has_deadline()) return;
    const Event* end = a.dead ? a.dead : a.last_alive;
    if (!end) return;
    const std::int64_t slack = a.deadline_at(end->t) - end->t;
    if (a.killed && a.dead) slacks_.push_back(slack);
    if (slack < 0 && !h_.fault_within(a.started->t, end->t, true))
      violated(
          "I3",
          fmt::format("a job under {} was alive {:.1f} ms after its deadline", a.key, ms(-slack)),
          {a.granted, a.deadlines.back(), a.started, a.killed, end});
  }

  void slack() {
    if (slacks_.empty()) return;
    std::sort(slacks_.begin(), slacks_.end());
    v_.figures.least_slack = slacks_.front();
    v_.figures.p1_slack = slacks_[slacks_.size() / 100];
  }

  // I4
  void tokens_rise(const Attempts& attempts) {
    Attempts granted;
    std::map<std::uint64_t, const Attempt*> seen;
    for (const Attempt* a : attempts) {
      if (!a->granted) continue;
      const auto [it, is_new] = seen.try_emplace(a->token(), a);
      if (!is_new)
        violated("I4", fmt::format("token {} of {} was given twice", a->token(), a->key),
                 {it->second->granted, a->granted});
      granted.push_back(a);
    }
    // `attempts` are in order of the invoke; the second list is in order of the grant.
    Attempts by_grant = granted;
    std::sort(by_grant.begin(), by_grant.end(),
              [](auto a, auto b) { return a->granted->t < b->granted->t; });
    const Attempt* highest = nullptr;
    auto before = by_grant.begin();
    for (const Attempt* a : granted) {
      for (; before != by_grant.end() && (*before)->granted->t < a->invoke->t; ++before)
        if (!highest || (*before)->token() > highest->token()) highest = *before;
      if (highest && a->token() < highest->token())
        violated("I4",
                 fmt::format("token {} of {} came after {}", a->token(), a->key, highest->token()),
                 {highest->granted, a->invoke, a->granted});
    }
  }

  // I5. value: the guarded counter after the write.
  void resource(const std::vector<const Event*>& writes) {
    const Event* last = nullptr;
    for (const Event* w : writes) {
      if (!w->accepted) continue;
      if (last && w->token && last->token && *w->token < *last->token)
        violated("I5", fmt::format("{} took token {} after {}", w->key, *w->token, *last->token),
                 {last, w});
      if (last && w->value && last->value && *w->value != *last->value + 1)
        violated(
            "I5",
            fmt::format("the counter of {} went from {} to {}", w->key, *last->value, *w->value),
            {last, w});
      last = w;
    }
  }

  // A fault was done to its process: it may end without a word.
  bool hit(const Attempt& a) const {
    return std::any_of(h_.faults.begin(), h_.faults.end(), [&](const Fault& f) {
      const std::int64_t last = f.end ? f.end->t : f.begin->t;  // it may have begun just before
      return f.begin->pid == a.invoke->pid && last >= a.invoke->t;
    });
  }

  // I6, of exclusive grants. A hand-over near a fault is not judged.
  void hand_overs(const Attempts& attempts) {
    if (!bounds_.hand_over && !bounds_.takeover) return;
    Attempts granted, queued;
    for (const Attempt* a : attempts) {
      if (a->granted) granted.push_back(a);
      if (a->queued) queued.push_back(a);
    }
    std::sort(granted.begin(), granted.end(),
              [](auto a, auto b) { return a->granted->t < b->granted->t; });
    std::sort(queued.begin(), queued.end(),
              [](auto a, auto b) { return a->queued->t < b->queued->t; });
    for (std::size_t i = 0; i < granted.size(); ++i) {
      const Attempt& holder = *granted[i];
      const Attempt* next = i + 1 < granted.size() ? granted[i + 1] : nullptr;
      const bool given = !holder.released.empty();
      const auto bound = given ? bounds_.hand_over : bounds_.takeover;
      if (!bound || (!given && !holder.has_deadline())) continue;
      const std::int64_t from = given ? holder.released.front()->t : holder.last_deadline();
      // The first contender queued by then that had no answer yet.
      const auto waits = std::find_if(queued.begin(), queued.end(), [&](const Attempt* w) {
        return w->queued->t < from && w != &holder &&
               (w->answer ? w->answer->t > from + *bound : !hit(*w));
      });
      if (waits == queued.end() || (next && next->granted->t <= from + *bound)) continue;
      if (h_.fault_within(holder.granted->t, from + *bound)) continue;
      violated("I6",
               fmt::format("{} was free for more than {:.0f} ms while {} waited", holder.key,
                           ms(*bound), (*waits)->owner),
               {holder.granted, given ? holder.released.front() : holder.last, (*waits)->queued,
                next ? next->granted : nullptr});
    }
  }

  // I7
  void ends(const Attempt& a) {
    if (!a.invoke || a.answer || a.exit) return;
    if (!hit(a))
      violated("I7", fmt::format("an acquire of {} never ended", a.key), {a.invoke, a.last});
  }

  void healed(const Attempt& a) {
    std::int64_t heal = 0;
    for (const Fault& f : h_.faults) heal = std::max(heal, f.end ? f.end->t : f.begin->t);
    if (heal && a.invoke && a.answer && a.answer->t > heal + bounds_.heal && a.invoke->t < heal)
      violated("I7",
               fmt::format("an acquire of {} ended {:.1f} s after the last fault", a.key,
                           ms(a.answer->t - heal) / 1000),
               {a.invoke, a.answer});
  }

  // I8
  void releases(const Attempts& attempts) {
    Attempts granted;
    for (const Attempt* a : attempts)
      if (a->granted) granted.push_back(a);
    std::sort(granted.begin(), granted.end(),
              [](auto a, auto b) { return a->granted->t < b->granted->t; });
    for (std::size_t i = 0; i < granted.size(); ++i) {
      const Attempt& a = *granted[i];
      if (a.released.empty()) continue;
      const Event* done = a.released.front();
      if (a.released.size() > 1)
        violated("I8", fmt::format("the grant of token {} was released twice", a.token()),
                 {a.granted, done, a.released[1]});
      if (a.lost && a.lost->t < a.release->t)
        violated("I8", fmt::format("{} was released after it was lost", a.key),
                 {a.granted, a.lost, a.release, done});
      // Granted to another before the release was requested, so it removed the other's grant.
      if (i + 1 < granted.size() && a.release && a.exclusive()) {
        const Attempt& next = *granted[i + 1];
        if (next.granted->t < a.release->t)
          violated("I8",
                   fmt::format("the release of token {} came after the grant of {}", a.token(),
                               next.token()),
                   {a.granted, next.granted, a.release, done});
      }
    }
  }

  // I9
  void exit_agrees(const Attempt& a) {
    if (!a.exit) return;
    if (a.started && !a.dead)
      violated("I9", fmt::format("dlock ended while its job under {} lived", a.key),
               {a.started, a.exit});
    if (a.exit->code == 123 && !a.started)
      violated("I9", "exit status 123 says that a job was ended, but none was started",
               {a.invoke, a.exit});
  }

  // I10
  void starts_only_when_granted(const Attempt& a) {
    if (a.started && (!a.granted || a.granted->t > a.started->t))
      violated("I10", fmt::format("a job under {} started without a grant", a.key),
               {a.invoke, a.answer, a.started});
  }

  // I11: a contender that was queued before another asked is granted before it.
  void order(const Attempts& attempts) {
    Attempts granted;
    for (const Attempt* a : attempts)
      if (a->granted) granted.push_back(a);
    std::sort(granted.begin(), granted.end(),
              [](auto a, auto b) { return a->granted->t < b->granted->t; });
    const Attempt* latest = nullptr;  // the latest invoke among those granted so far
    for (const Attempt* a : granted) {
      if (latest && a->queued && a->queued->t < latest->invoke->t &&
          !h_.fault_within(a->queued->t, a->granted->t))
        violated("I11",
                 fmt::format("{} overtook {} in the queue of {}", latest->owner, a->owner, a->key),
                 {a->queued, latest->invoke, latest->granted, a->granted});
      if (!latest || a->invoke->t > latest->invoke->t) latest = a;
    }
  }

  const History& h_;
  const Bounds& bounds_;
  Verdict v_;
  std::vector<std::int64_t> slacks_;
};

}  // namespace

Verdict check(const History& history, const Bounds& bounds) { return Check(history, bounds).run(); }

}  // namespace dlock::history
