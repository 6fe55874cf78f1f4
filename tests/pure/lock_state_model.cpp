// SPDX-License-Identifier: Apache-2.0
#include "pure/lock_state_model.hpp"
#include <algorithm>

namespace dlock::test {
namespace {

Micros sum(Micros a, Micros b) {
  Micros out = 0;
  return __builtin_add_overflow(a, b, &out) ? never : out;
}

}  // namespace

Micros Model::Person::queue_end() const {
  const Micros silent = sum(heard, patience);
  return invited ? std::min(silent, sum(told, claim)) : silent;
}
Micros Model::Person::lease_end() const { return dead ? died : sum(since, ttl); }
Micros Model::Person::free_at() const { return sum(lease_end(), delay); }

std::vector<const Model::Person*> Model::in(Place place) const {
  std::vector<const Person*> out;
  for (const Person& p : people_)
    if (p.place == place) out.push_back(&p);
  return out;
}

Model::Person* Model::find(const Owner& owner, Place place, Micros now) {
  for (Person& p : people_)
    if (p.asked.owner == owner && p.place == place &&
        (place != Place::inside || now < p.lease_end()))
      return &p;
  return nullptr;
}

// Whether `p` may hold together with these holders.
bool Model::at_ease(const Person& p, const std::vector<const Person*>& company) {
  if (p.asked.mode == Mode::exclusive) return company.empty();
  for (const Person* other : company)
    if (other->asked.mode == Mode::exclusive) return false;
  return p.asked.mode == Mode::shared || company.size() + 1 <= p.asked.limit;
}

bool Model::may_run(const Person& who) const {
  const auto inside = in(Place::inside), queue = in(Place::queue);
  std::vector<const Person*> first;  // the waiters that came before, and `who` itself
  for (const Person* p : queue)
    if (p->ticket <= who.ticket) first.push_back(p);
  return std::all_of(first.begin(), first.end(), [&](const Person* p) {
    auto company = inside;
    for (const Person* other : first)
      if (other != p) company.push_back(other);
    return at_ease(*p, company);
  });
}
bool Model::may_run(std::uint64_t ticket) const {
  const auto queue = in(Place::queue);
  return std::any_of(queue.begin(), queue.end(),
                     [&](const Person* p) { return p->ticket == ticket && may_run(*p); });
}

void Model::expire(Micros now) {
  for (Person& p : people_)
    if ((p.place == Place::queue && p.queue_end() <= now) ||
        (p.place == Place::inside && p.free_at() <= now))
      p.place = Place::gone;
}

Micros Model::oldest_invitation_ends() const {
  Micros at = never;
  for (const Person* p : in(Place::queue)) at = std::min(at, p->invited ? p->queue_end() : never);
  return at;
}

Micros Model::free_at() const {
  Micros at = never;
  for (const Person* p : in(Place::inside)) at = std::min(at, p->free_at());
  bool all_may = true;  // whether every waiter in front of this one may run
  for (const Person* p : in(Place::queue)) {
    if (all_may) at = std::min(at, p->queue_end());
    all_may = all_may && may_run(*p);
  }
  return at;
}

LockState::Answer Model::acquire(const Acquisition& ask, Micros now) {
  Person* me = find(ask.owner, Place::queue, now);
  if (me) {
    // A request shows that it is alive; an invitation that it comes late to is forgiven and stays
    // open.
    me->heard = now, me->patience = ask.patience, me->claim = never;
  }
  expire(now);
  if (const Person* holding = find(ask.owner, Place::inside, now))
    return LockState::Granted{holding->token, holding->ticket, holding->slot};

  const bool queued = me && me->place == Place::queue;
  if (!queued) {
    me = &people_.emplace_back();
    me->ticket = arrivals_ + 1;
    me->asked = ask, me->heard = now, me->patience = ask.patience;
  }
  if (may_run(*me)) {
    std::vector<unsigned> slots;
    for (const Person* p : in(Place::inside))
      if (p->asked.mode == Mode::permit) slots.push_back(p->slot);
    arrivals_ = std::max(arrivals_, me->ticket);
    me->place = Place::inside;
    newest_ = me->token = std::max(newest_ + 1, ask.token_floor);
    if (ask.mode == Mode::permit)
      while (std::count(slots.begin(), slots.end(), me->slot) != 0) ++me->slot;
    me->since = now, me->ttl = ask.ttl, me->delay = ask.delay, me->asked.meta = ask.meta;
    grants_.push_back(me->ticket);
    return LockState::Granted{me->token, me->ticket, me->slot};
  }
  if (!ask.wait) {
    if (!queued) people_.pop_back();
    return LockState::Busy{free_at()};
  }
  arrivals_ = std::max(arrivals_, me->ticket);
  me->invited = false;
  const auto queue = in(Place::queue);
  const auto ahead = std::count_if(queue.begin(), queue.end(),
                                   [&](const Person* p) { return p->ticket < me->ticket; });
  return LockState::Waiting{static_cast<std::size_t>(ahead), free_at()};
}

std::optional<FencingToken> Model::renew(const Owner& owner, Micros ttl, Micros now) {
  expire(now);
  Person* p = find(owner, Place::inside, now);
  if (!p) return std::nullopt;
  p->since = now, p->ttl = ttl;
  return p->token;
}

bool Model::release(const Owner& owner, Micros now) {
  expire(now);
  Person* p = find(owner, Place::inside, now);
  if (p) p->place = Place::gone;
  return p != nullptr;
}

bool Model::cancel(const Owner& owner) {
  Person* p = find(owner, Place::queue, 0);
  if (p) p->place = Place::gone;
  return p != nullptr;
}

std::size_t Model::force_release(FencingToken token) {
  std::size_t n = 0;
  for (Person& p : people_) {
    if (p.place != Place::inside || (token != 0 && p.token != token)) continue;
    p.place = Place::gone;
    ++n;
  }
  return n;
}

bool Model::vanish(std::uint64_t ticket, Micros now) {
  expire(now);
  for (Person& p : people_) {
    if (p.ticket != ticket) continue;
    if (p.place == Place::queue) return p.place = Place::gone, true;
    if (p.place != Place::inside || p.lease_end() <= now) return false;
    p.dead = true, p.died = now;
    expire(now);
    return true;
  }
  return false;
}

std::vector<std::uint64_t> Model::invite(Micros now, Micros claim) {
  expire(now);
  std::vector<std::uint64_t> out;
  for (Person& p : people_) {
    if (p.place != Place::queue || p.invited || !may_run(p)) continue;
    p.invited = true, p.told = now, p.claim = claim;
    out.push_back(p.ticket);
  }
  return out;
}

LockState Model::as_state() const {
  LockState s;
  s.fence = newest_;
  s.next_ticket = arrivals_ + 1;
  for (const std::uint64_t ticket : grants_)
    for (const Person* p : in(Place::inside))
      if (p->ticket == ticket)
        s.holders.push_back({p->asked.owner, p->asked.mode, p->ticket, p->token, p->slot, p->since,
                             p->lease_end(), p->delay, p->asked.meta});
  for (const Person* p : in(Place::queue))
    s.waiters.push_back({p->asked.owner, p->asked.mode, p->asked.limit, p->ticket, p->queue_end(),
                         p->invited, p->asked.meta});
  return s;
}

}  // namespace dlock::test
