// SPDX-License-Identifier: Apache-2.0
#include "history/attempts.hpp"
#include <algorithm>
#include <cstdint>
#include <utility>

namespace dlock::history {
namespace {

void add_acquire(Attempt& a, const Event& e) {
  switch (e.what) {
    case What::invoke:
      if (!a.invoke) a.invoke = &e;
      break;
    case What::queued:
      if (!a.queued) a.queued = &e;
      break;
    case What::ok:
      a.granted = &e;
      if (e.deadline) a.deadlines.push_back(&e);
      [[fallthrough]];
    default: a.answer = &e;
  }
}

void add_renewal(Attempt& a, const Event& e) {
  if (e.what == What::ok && e.deadline) a.deadlines.push_back(&e);
  if (e.what == What::fail && !a.lost) a.lost = &e;
}

void add_release(Attempt& a, const Event& e) {
  if (e.what == What::invoke && !a.release) a.release = &e;
  if (e.what == What::ok) a.released.push_back(&e);
}

void add_job(Attempt& a, const Event& e) {
  if (e.what == What::child_start) a.started = &e;
  if (e.what == What::alive) a.last_alive = &e;
  if ((e.what == What::term_sent || e.what == What::kill_sent) && !a.killed) a.killed = &e;
  if (e.what == What::tree_dead) a.dead = &e;
}

void add(Attempt& a, const Event& e) {
  a.last = &e;
  if (e.what == What::exit) a.exit = &e;
  else if (e.f == "acquire") add_acquire(a, e);
  else if (e.f == "renew") add_renewal(a, e);
  else if (e.f == "release") add_release(a, e);
  else if (e.f == "job") add_job(a, e);
}

}  // namespace

std::int64_t Attempt::deadline_at(std::int64_t t) const {
  const auto after =
      std::find_if(deadlines.begin(), deadlines.end(), [&](const Event* d) { return d->t > t; });
  return *(after == deadlines.begin() ? *after : *std::prev(after))->deadline;
}

std::int64_t Attempt::held_until() const {
  std::int64_t until = has_deadline() ? last_deadline() : last->t;
  if (release) until = std::min(until, release->t);
  if (lost) until = std::min(until, lost->t);
  return until;
}

bool History::fault_within(std::int64_t from, std::int64_t to, bool fenced_only) const {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& f) {
    return (!fenced_only || f.begin->fenced_only) && f.begin->t <= to &&
           (!f.end || f.end->t >= from);
  });
}

History gather(const std::vector<Event>& events) {
  History h;
  std::map<std::pair<std::string, std::string>, std::size_t> known;    // key, owner
  std::map<std::pair<std::string, std::int64_t>, std::size_t> latest;  // key, pid
  std::map<std::string, std::size_t> open_faults;
  for (const Event& e : events) {
    switch (e.what) {
      case What::fault:
        if (e.phase == "end") {
          if (const auto it = open_faults.find(e.name); it != open_faults.end()) {
            h.faults[it->second].end = &e;
            open_faults.erase(it);
          }
        } else {
          open_faults[e.name] = h.faults.size();
          h.faults.push_back({&e, nullptr});
        }
        break;
      case What::left: h.left.push_back(&e); break;
      case What::write: h.writes[e.key].push_back(&e); break;
      default: {
        const bool begins = e.what == What::invoke && e.f == "acquire";
        const auto [it, is_new] = known.try_emplace({e.key, e.owner}, h.attempts.size());
        const auto asked = latest.find({e.key, e.pid});
        // A waiter that polls, or lost its place, is granted as another owner than it began with.
        const bool renamed = is_new && e.f == "acquire" && e.what == What::ok &&
                             asked != latest.end() && !h.attempts[asked->second].answer;
        if (renamed) it->second = asked->second;
        else if (is_new && !begins) {  // of another program, or of a grant before the history began
          known.erase(it);
          if (e.f == "release" && e.what == What::ok) h.unmatched_releases.push_back(&e);
          break;
        }
        if (is_new && !renamed) {
          latest[{e.key, e.pid}] = h.attempts.size();
          h.attempts.emplace_back();
          h.attempts.back().key = e.key;
          h.attempts.back().owner = e.owner;
        }
        add(h.attempts[it->second], e);
      }
    }
  }
  for (const Attempt& a : h.attempts) h.by_key[a.key].push_back(&a);
  return h;
}

}  // namespace dlock::history
