// SPDX-License-Identifier: Apache-2.0
// An independent model of LockState: contenders, and the events of each. Nothing is ever removed or
// kept up to date; every question is answered from the events by comparing all with all. Slow, but
// simple enough to be checked by reading.
#pragma once
#include "core/lock_state.hpp"

namespace dlock::test {

class Model {
 public:
  using Acquisition = LockState::Acquisition;

  LockState::Answer acquire(const Acquisition&, Micros now);
  std::optional<FencingToken> renew(const Owner&, Micros ttl, Micros now);
  bool release(const Owner&, Micros now);
  bool cancel(const Owner&);
  std::size_t force_release(FencingToken);
  bool vanish(std::uint64_t ticket, Micros now);
  void expire(Micros now);
  std::vector<std::uint64_t> invite(Micros now, Micros claim);
  Micros free_at() const;
  Micros oldest_invitation_ends() const;

  LockState as_state() const;

  // Whether the waiter with this ticket may run: it and all earlier waiters could hold together
  // with the current holders.
  bool may_run(std::uint64_t ticket) const;

 private:
  enum class Place { queue, inside, gone };
  struct Person {
    Acquisition asked;
    std::uint64_t ticket = 0;
    Place place = Place::queue;
    Micros heard = 0;         // waiting: time of its last request
    Micros patience = never;  // longest allowed silence
    Micros told = 0;          // time of its invitation
    Micros claim = never;     // time that it has to claim it
    bool invited = false;
    FencingToken token = 0;  // holding
    unsigned slot = 0;
    Micros since = 0, ttl = never, delay = 0;
    bool dead = false;  // vanished while holding, at `died`
    Micros died = 0;

    Micros queue_end() const;  // when it is dropped from the queue
    Micros lease_end() const;  // when the lease ends
    Micros free_at() const;    // when its place is free
  };
  std::vector<const Person*> in(Place) const;
  Person* find(const Owner&, Place, Micros now);
  static bool at_ease(const Person&, const std::vector<const Person*>& company);
  bool may_run(const Person&) const;

  std::vector<Person> people_;         // in order of arrival
  std::vector<std::uint64_t> grants_;  // tickets in order of their grants
  FencingToken newest_ = 0;
  std::uint64_t arrivals_ = 0;
};

}  // namespace dlock::test
