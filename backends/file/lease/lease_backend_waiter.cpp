// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include <vector>
#include "file/lease/lease_backend.hpp"
#include "file/sys_error.hpp"
#include "store/key_view.hpp"
#include "util/wait.hpp"

namespace dlock::file {
namespace {

constexpr std::uint64_t sweep_every = 1024;  // how many grants there are between two sweeps

Deadline at(Micros boottime) {
  return boottime == never ? no_deadline : Deadline{std::chrono::microseconds{boottime}};
}

// Contenders read and write this text with the state, so it must stay small.
std::string short_identity(Identity who) {
  if (std::string text = who.encode(); text.size() <= longest_identity) return text;
  who.command.clear();
  who.reason.resize(std::min<std::size_t>(who.reason.size(), 200));
  who.host.resize(std::min<std::size_t>(who.host.size(), 64));
  who.user.resize(std::min<std::size_t>(who.user.size(), 64));
  return who.encode();
}

}  // namespace

// A place in the queue of a key. The waiter sleeps in ppoll(2). It watches its own lifeline (for
// notifications), and the lifelines whose end may mean that its turn has come. For the first waiter
// these are the lifelines of all holders, and for another waiter the lifeline of its predecessor.
//
// An exclusive waiter is woken only once. When its predecessor becomes the holder, the waiter
// already watches the right lifeline.
class LeaseWaiter final : public Waiter {
 public:
  LeaseWaiter(LeaseBackend& backend, KeyStore& key, const Request& request)
      : backend_(backend), key_(key), request_(request) {}

  Result<Progress> poll(Duration slice) override;
  Result<void> cancel() override;

 private:
  struct Watched {
    std::uint64_t ticket;
    Fd fd;
  };
  enum class Woken { by_event, by_time, by_interrupt };

  Result<Progress> attempt();
  Result<std::optional<Progress>> change(bool fresh);
  LockState::Acquisition lock_request() const;
  Result<void> rejoin();
  Result<std::optional<LockState::Answer>> join(std::uint64_t& ticket);
  Result<LockState::Answer> decide();
  Result<bool> holder_is_gone();
  bool turn_is_missed();
  Result<bool> watch(const std::vector<std::uint64_t>& wanted, bool holders);
  Result<std::optional<Lifeline>> lifeline_for(std::uint64_t ticket, bool& unknown_one);
  Granted granted(const LockState::Granted&, Deadline sent);
  Result<Woken> sleep(Deadline until);
  Waiting in_the_way(const LockState&, Micros now);
  bool refresh();

  LeaseBackend& backend_;
  KeyStore& key_;
  const Request request_;
  Lifeline life_;
  std::vector<Watched> watched_;
  bool requested_ = false, queued_ = false;  // requested_: the state may know our owner
  Waiting last_;
  std::uint64_t shown_ = 0;          // the ticket of last_.holder if it is attached, else 0
  std::uint64_t last_change_ = 0;    // the change that last_ describes
  Deadline wake_at_ = no_deadline;   // when time alone may make it our turn
  Deadline check_at_ = no_deadline;  // when to check whether a turn was missed
  unsigned checks_ = 0;
  bool checks_all_ = false;  // whether to check every holder, not only the first
};

Result<std::unique_ptr<Waiter>> LeaseBackend::enqueue(const Request& r) {
  TRY_VOID(can_serve(traits(), r));
  return std::make_unique<LeaseWaiter>(*this, store(r.key), r);
}

LockState::Acquisition LeaseWaiter::lock_request() const {
  LockState::Acquisition a;
  a.owner = request_.owner;
  a.mode = request_.mode;
  if (request_.mode == Mode::permit) a.limit = request_.limit;
  a.ttl = request_.attached ? never : request_.ttl.count();
  a.delay = request_.lock_delay.count();
  a.token_floor = static_cast<FencingToken>(std::max<std::int64_t>(wall_micros(), 0));
  a.wait = request_.wait;
  a.meta = short_identity(request_.identity);
  return a;
}

// ---- one change of the state -------------------------------------------------------------------
Result<Progress> LeaseWaiter::attempt() {
  // if this attempt fails, the next poll() must try again: no second wake-up will come
  queued_ = false;
  for (bool fresh = !requested_;; fresh = false) {
    const Deadline began = Clock::now();
    TRY(begun, backend_.begin(key_, Make::all, backend_.settings_.interrupt_fd,
                              request_.wait ? backend_.settings_.op_timeout : one_try));
    backend_.silent_ = begun == KeyStore::Begun::interrupted && !requested_;
    if (backend_.silent_) {
      // Name the process only after a longer wait: for the name the kernel must list its locks, and
      // meanwhile all flock calls of the host stop. In a crowd each new contender finds the state
      // locked.
      const bool name = Clock::now() - began >= named_after;
      last_.why = key_.file().locked_by_another("", name);
    }
    if (begun == KeyStore::Begun::interrupted) return last_;
    requested_ = true;
    const Change guard(key_);
    auto done = change(fresh);
    if (!done && !key_.file().still_linked()) continue;
    if (!done) return fail(done.error());
    if (*done) return std::move(**done);
  }
}

// nullopt: the state file was deleted meanwhile, so the written change does not count. The deletion
// may also be the cause of an Error.
Result<std::optional<Progress>> LeaseWaiter::change(bool fresh) {
  const Deadline sent = Clock::now();
  if (!life_.is_at(key_.place())) watched_.clear();  // another directory has other contenders

  std::optional<LockState::Answer> answer;
  std::optional<Lifeline> made;
  for (bool unknown_one = true; unknown_one;) {
    unknown_one = false;
    key_.remove_adopted(life_);
    std::uint64_t ticket = 0;
    TRY(joined, fresh ? join(ticket) : std::optional<LockState::Answer>{});
    answer = joined;
    if (!answer) {
      TRY_VOID(key_.load_for(request_.owner));
      TRY_VOID(rejoin());
      TRY(decided, decide());
      answer = decided;
      if (const auto* w = std::get_if<LockState::Waiting>(&*answer))
        ticket = key_.state().waiters[w->rank].ticket;
    }
    if (const auto* g = std::get_if<LockState::Granted>(&*answer))
      ticket = request_.attached ? g->ticket : 0;
    TRY(line, lifeline_for(ticket, unknown_one));
    made = std::move(line);
    if (!unknown_one) continue;
    if (!key_.file().still_linked()) return std::nullopt;
    TRY_VOID(key_.restart_and_adopt());
  }

  const auto* g = std::get_if<LockState::Granted>(&*answer);
  const LockState& s = key_.state();
  if (g && g->ticket % sweep_every == 0) TRY_VOID(key_.sweep());
  // The waiter that is now the first has watched only its predecessor, and must now watch every
  // holder. (An exclusive holder is the only holder, and was the predecessor.)
  if (g && s.holders.size() > 1) key_.wake_head();
  Waiting waiting = in_the_way(s, key_.now());

  Lifeline old = std::move(life_);
  if (made) life_ = std::move(*made);
  else std::swap(life_, old);
  // Discard the wake-ups of the waiter now. After the commit, an alarm for the holder could be
  // among them.
  if (g && !made) life_.drain();
  const auto done = key_.finish();
  if (!done) {
    if (made) {
      life_.drop(key_.place());
      life_ = std::move(old);
    }
    return fail(done.error());
  }
  old.drop(key_.place());
  // Interleaving 4: we were stopped before we opened our new FIFO, and the state was deleted. A
  // contender of the next state got our ticket and put its FIFO in the place of ours. So the FIFO
  // that we have open is the lifeline of that contender. Drop it: after another deletion, a later
  // state would take us for the owner of that FIFO.
  if (!*done && made) life_.drop();
  if (!*done) return std::optional<Progress>{};

  queued_ = std::holds_alternative<LockState::Waiting>(*answer);
  if (const auto* w = std::get_if<LockState::Waiting>(&*answer)) {
    wake_at_ = w->rank == 0 ? at(w->free_at) : no_deadline;
    last_ = std::move(waiting);
    last_.ahead = w->rank;
    last_.sent_at = sent;
    return last_;
  }
  watched_.clear();
  if (g) return granted(*g, sent);
  life_.drop(key_.place());
  return Busy{std::move(waiting.holder), std::move(waiting.why), sent};
}

// Returns what blocks us, for messages: a holder, or the next waiter if it has not taken its turn.
Waiting LeaseWaiter::in_the_way(const LockState& s, Micros now) {
  Waiting w;
  shown_ = 0;
  if (!s.holders.empty()) {
    w.holder = view(s.holders.front(), now);
    if (w.holder->attached) shown_ = s.holders.front().ticket;
  } else if (!s.waiters.empty() && s.waiters.front().owner != request_.owner) {
    w.why = fmt::format("{} is next, and has not taken it yet",
                        Identity::decode(s.waiters.front().meta).text());
  }
  return w;
}

// Another Waiter or Backend may have put our owner into the state. Then the lifeline of that entry
// is ours, too, and we open it. If the lifeline was deleted, the entry does not count, because
// others could not notice our end.
Result<void> LeaseWaiter::rejoin() {
  const LockState& s = key_.state();
  std::uint64_t ticket = 0;
  if (const std::size_t rank = s.rank_of(request_.owner); rank < s.waiters.size())
    ticket = s.waiters[rank].ticket;
  if (const auto* h = s.holder(request_.owner, key_.now()); h && h->deadline == never)
    ticket = h->ticket;
  const auto* held = backend_.held(request_.key, request_.owner);
  if (ticket == 0 || (held && held->life.ticket() == ticket)) return {};
  if (life_.ticket() == ticket && life_.is_at(key_.place())) return {};
  TRY(line, Lifeline::rejoin(key_.place(), ticket));
  if (!line) {
    key_.remove_dead(ticket);
    return key_.load_for(request_.owner);
  }
  life_.drop(key_.place());
  life_ = std::move(*line);
  return {};
}

// If a new owner must wait for one of the first waiters, it joins after the last waiter, without
// reading the waiters in between. nullopt: the waiters in between must be read.
Result<std::optional<LockState::Answer>> LeaseWaiter::join(std::uint64_t& ticket) {
  constexpr std::optional<LockState::Answer> unknown;
  LockState& s = key_.state();
  s.expire(key_.now());
  if (request_.mode != Mode::exclusive || s.rank_of(request_.owner) < s.waiters.size() ||
      s.holder(request_.owner, key_.now()))
    return unknown;
  for (;;) {
    TRY(gone, holder_is_gone());
    if (!gone) break;
  }
  const auto last = key_.last_waiter();
  if (!last) return unknown;
  TRY(alive, watch({*last}, false));
  if (!alive) return unknown;
  if (!request_.wait) return LockState::Answer{LockState::Busy{s.free_at()}};
  const std::size_t rank = key_.waiters();
  ticket = key_.join(lock_request());
  return LockState::Answer{LockState::Waiting{rank, s.free_at()}};
}

// Removes a dead holder, and returns whether there was one. Every contender does that, because only
// the first waiter watches the holders, and the first waiter may be stopped.
Result<bool> LeaseWaiter::holder_is_gone() {
  for (const auto& h : key_.state().holders) {
    if (h.deadline == never) {
      TRY(found, probe(key_.place(), h.ticket));
      if (found.life == Probe::Life::dead) {
        key_.remove_dead(h.ticket);
        return true;
      }
    }
    if (!checks_all_) break;
  }
  return false;
}

Result<LockState::Answer> LeaseWaiter::decide() {
  LockState& s = key_.state();
  for (const LockState::Acquisition a = lock_request();;) {
    LockState::Answer answer = s.acquire(a, key_.now());
    if (std::holds_alternative<LockState::Granted>(answer)) return answer;
    const std::size_t rank = s.rank_of(request_.owner);  // our place, or the place we would get
    std::vector<std::uint64_t> wanted;
    if (rank > 0) {
      TRY(gone, holder_is_gone());
      if (gone) continue;
      wanted.push_back(s.waiters[rank - 1].ticket);
    } else
      for (const auto& h : s.holders)
        if (h.deadline == never) wanted.push_back(h.ticket);
    TRY(all_alive, watch(wanted, rank == 0));
    if (all_alive) return answer;
  }
}

// Watches exactly the contenders in `wanted`. Returns false if one of them was dead and was
// removed: then acquire() may give another answer.
Result<bool> LeaseWaiter::watch(const std::vector<std::uint64_t>& wanted, bool holders) {
  std::erase_if(watched_, [&](const Watched& w) {
    return std::ranges::find(wanted, w.ticket) == wanted.end();
  });
  bool all_alive = true;
  for (const std::uint64_t ticket : wanted) {
    const auto watched = std::ranges::find(watched_, ticket, &Watched::ticket);
    if (watched != watched_.end()) {
      if (!ended(watched->fd.get())) continue;
      watched_.erase(watched);
    } else {
      TRY(found, probe(key_.place(), ticket));
      if (found.life == Probe::Life::alive) watched_.push_back({ticket, std::move(found.fd)});
      if (found.life == Probe::Life::alive) continue;
      // a holder whose name was deleted is not proven dead, so it blocks the key
      if (found.life == Probe::Life::missing && holders) continue;
    }
    key_.remove_dead(ticket);
    all_alive = false;
  }
  return all_alive;
}

// Makes a new lifeline. nullopt: we have the lifeline of this ticket, or need none (ticket 0), or
// Lifeline::make() made none (then `unknown_one` is set).
Result<std::optional<Lifeline>> LeaseWaiter::lifeline_for(std::uint64_t ticket, bool& unknown_one) {
  const auto* held = backend_.held(request_.key, request_.owner);
  const bool have = (held && held->life.ticket() == ticket) ||
                    (life_.ticket() == ticket && life_.is_at(key_.place()));
  if (ticket == 0 || have) return std::nullopt;
  auto line = Lifeline::make(key_.place(), ticket);
  if (line && !*line) unknown_one = true;
  return line;
}

Granted LeaseWaiter::granted(const LockState::Granted& g, Deadline sent) {
  Lease lease{request_.key, request_.owner, request_.mode,    g.token,
              g.slot,       no_deadline,    request_.attached};
  if (!request_.attached) {
    life_.drop(key_.place());
    lease.deadline = lease_end(sent, request_.ttl);
    return {std::move(lease)};
  }
  auto& held = backend_.held_[{request_.key.text(), request_.owner}];
  if (held.life.ticket() != g.ticket || !held.life) {
    held.life = std::move(life_);
    life_ = Lifeline{};
  }
  if (const auto* h = key_.state().holder(request_.owner, key_.now())) held.record = *h;
  return {std::move(lease), held.life.fd(), held.life.fd()};
}

// ---- waiting -----------------------------------------------------------------------------------
Result<LeaseWaiter::Woken> LeaseWaiter::sleep(Deadline until) {
  std::vector<pollfd> fds{{backend_.settings_.interrupt_fd, POLLIN, 0}, {life_.fd(), POLLIN, 0}};
  for (const Watched& w : watched_) fds.push_back({w.fd.get(), 0, 0});
  const int n = wait_until(fds, until);
  if (n < 0) return fail_errno("wait for", key_.file().path(), -n);
  if (n == 0) return Woken::by_time;
  return fds[0].revents ? Woken::by_interrupt : Woken::by_event;
}

// Reads the state again, because a change of our rank wakes nobody, but the caller reports our rank
// at the end of a slice. True: the holder is dead, and the first waiter has not noticed.
bool LeaseWaiter::refresh() {
  const Deadline asked = Clock::now();
  const std::uint64_t newest = key_.file().newest_change();
  if (newest == 0 || newest != last_change_) {
    const auto record = key_.file().peek(StateFile::Depth::waiters);
    if (!record || !*record) return false;
    const LockState& s = (*record)->state;
    const std::size_t rank = s.rank_of(request_.owner);
    if (rank == s.waiters.size()) return false;
    last_change_ = newest;
    last_ = in_the_way(s, boottime_us());
    last_.ahead = rank;
  }
  last_.sent_at = asked;
  const auto found = shown_ == 0 ? fail(Errc::internal, "") : probe(key_.place(), shown_);
  return found && found->life == Probe::Life::dead;
}

// Checks without the lock whether a turn was missed: an invitation or a lease has ended, or a
// holder has died, and nobody has noticed because the waiters ahead are stopped.
bool LeaseWaiter::turn_is_missed() {
  const Micros now = boottime_us();
  if (!life_.linked() || key_.file().needs_check(now)) return true;
  const auto record = key_.file().peek(StateFile::Depth::holders);
  if (!record || !*record) return false;
  const LockState& s = (*record)->state;
  return s.free_at() <= now || std::ranges::any_of(s.holders, [&](const LockState::Holder& h) {
           const auto found =
               h.deadline == never ? probe(key_.place(), h.ticket) : Probe{Probe::Life::missing};
           return found && found->life == Probe::Life::dead;
         });
}

Result<Progress> LeaseWaiter::poll(Duration slice) {
  const Deadline end = later(Clock::now(), slice);
  const Duration safety{backend_.tuning_.safety};
  last_.sent_at = {};
  if (!queued_) {
    auto first = attempt();
    if (!first || !queued_) return first;
    // different for each waiter, to spread the checks
    check_at_ = later(Clock::now(), safety + safety * (life_.ticket() % 64) / 256);
  }
  for (;;) {
    TRY(woken, sleep(std::min({end, wake_at_, check_at_})));
    if (woken == Woken::by_interrupt) return last_;
    const Deadline now = Clock::now();
    if (woken == Woken::by_event) {
      ++backend_.counters_.wakeups;
      life_.drain();
    } else if (now >= wake_at_) {
      // it may be our turn because time has passed
    } else if (now >= check_at_) {
      check_at_ = later(now, safety);
      // Make a full check each 8th time, whatever the state says.
      if (++checks_ % 8 && !turn_is_missed()) continue;
      checks_all_ = true;
    } else {
      if (slice <= Duration::zero() || !refresh()) return last_;
    }
    auto next = attempt();
    checks_all_ = false;
    if (!next || !queued_ || !std::holds_alternative<Waiting>(*next)) return next;
    // Check when the oldest invitation ends, because the invited waiter may be stopped.
    check_at_ = std::min(check_at_, at(key_.state().oldest_invitation_ends()));
    if (Clock::now() >= end) return next;
  }
}

Result<void> LeaseWaiter::cancel() {
  if (!requested_) return {};
  auto* mine = backend_.held(request_.key, request_.owner);
  const auto forget = [&](bool with_name) {
    watched_.clear();
    queued_ = false;
    with_name ? life_.drop(key_.place()) : life_.drop();
    if (!mine) return;
    with_name ? mine->life.drop(key_.place()) : mine->life.drop();
    backend_.held_.erase({request_.key.text(), request_.owner});
  };
  TRY(begun, backend_.begin(key_, Make::nothing));
  if (begun == KeyStore::Begun::absent) {
    forget(true);
    return {};
  }
  const Change guard(key_);
  TRY_VOID(key_.load_for(request_.owner));
  key_.remove_adopted(life_);
  if (mine) key_.remove_adopted(mine->life);
  key_.state().cancel(request_.owner);
  key_.state().release(request_.owner, key_.now());
  const bool alive = life_ || mine;
  const auto done = key_.finish();
  if (!done && !alive) return fail(done.error());
  // If the disk is full, the end of our lifeline takes us out of the queue.
  forget(done.has_value());
  return {};
}

}  // namespace dlock::file
