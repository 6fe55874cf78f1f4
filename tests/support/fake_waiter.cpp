// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>
#include <stdexcept>
#include "core/key_view.hpp"
#include "support/fake_impl.hpp"

namespace dlock::fake {

void FakeWaiter::make_life(Entry& e, std::uint64_t ticket) {
  if (life_.ticket == ticket) return;
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK)) throw std::runtime_error("fake: pipe");
  Fd read_end(ends[0]);
  life_ = {ticket, Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), Fd(ends[1])};
  e.bells[ticket] = Fd(::fcntl(life_.bell.get(), F_DUPFD_CLOEXEC, 3));
  if (!backend_.leased()) e.lives[ticket] = std::move(read_end);
}

Granted FakeWaiter::granted(const LockState::Granted& g, Entry& e, Deadline sent) {
  Lease lease{request_.key, request_.owner, request_.mode,    g.token,
              g.slot,       no_deadline,    request_.attached};
  if (backend_.leased()) {
    lease.deadline = lease_end(unknown_since_.value_or(sent), request_.ttl);
    return {std::move(lease)};
  }
  auto& held = backend_.held_[{backend_.name(request_.key), request_.owner}];
  if (held.ticket != g.ticket) {
    make_life(e, g.ticket);
    held = std::move(life_);
    life_ = Life{};
  }
  std::uint64_t rings = 0;  // an alarm counts only beyond these
  (void)!::read(held.bell.get(), &rings, sizeof rings);
  return {std::move(lease), held.write_end.get(), held.bell.get()};
}

// One try: grants, refuses, or returns the descriptors to wait on.
FakeWaiter::Step FakeWaiter::ask() {
  const Deadline sent = Clock::now();
  const Micros now = now_us();
  Table table;
  Entry& e = backend_.entry(table, request_.key, now);
  if (e.spent.count(request_.owner) > 0) throw std::logic_error("fake: an owner came back");
  LockState::Acquisition ask;
  ask.owner = request_.owner;
  ask.mode = request_.mode;
  ask.limit = request_.limit;
  ask.delay = request_.lock_delay.count();
  ask.token_floor = static_cast<FencingToken>(wall_micros());
  ask.wait = request_.wait;
  ask.meta = request_.identity.encode();
  if (backend_.leased()) {
    ask.ttl = request_.ttl.count();
    ask.patience = backend_.faults_.patience.count();
  }
  const auto answer = e.state.acquire(ask, now);
  Step step;
  if (const auto* g = std::get_if<LockState::Granted>(&answer)) {
    step.progress = granted(*g, e, sent);
    e.settle(now, true);
    return step;
  }
  std::optional<HolderView> holder;
  if (!e.state.holders.empty()) holder = view(e.state.holders.front(), now);
  if (std::holds_alternative<LockState::Busy>(answer)) {
    step.progress = Busy{std::move(holder), {}, sent};
  } else {
    const auto& w = std::get<LockState::Waiting>(answer);
    make_life(e, e.state.waiters[w.rank].ticket);
    step.progress = Waiting{w.rank, std::move(holder), {}, sent};
    step.watched = e.watch(w.rank);
    // A waiter of `lease` must poll before its patience ends; one of `process` only has to notice
    // an unanswered invitation.
    const Duration nap =
        backend_.leased() ? backend_.faults_.patience / 3 : std::chrono::seconds{3};
    step.wake_at = later(sent, nap);
    if (w.rank == 0 && w.free_at != never)
      step.wake_at = std::min(step.wake_at, later(sent, Duration{w.free_at - now}));
  }
  e.settle(now, false);
  return step;
}

FakeWaiter::Step FakeWaiter::held_back() const {
  Step step;
  const Deadline now = Clock::now();
  step.progress = Waiting{.holder = {}, .sent_at = now};
  if (!request_.wait) step.progress = Busy{.holder = {}, .sent_at = now};
  step.wake_at = *closed_until_;
  return step;
}

// True: interrupted.
bool FakeWaiter::sleep_until(Deadline until, const Step& step) {
  std::vector<pollfd> fds{{backend_.interrupt_fd_, POLLIN, 0}, {life_.bell.get(), POLLIN, 0}};
  for (const Fd& fd : step.watched) fds.push_back({fd.get(), 0, 0});
  const auto left = std::max(std::chrono::nanoseconds::zero(), until - Clock::now());
  const timespec t{static_cast<time_t>(left.count() / 1'000'000'000),
                   static_cast<long>(left.count() % 1'000'000'000)};
  const bool woken =
      ::ppoll(fds.data(), fds.size(), until == no_deadline ? nullptr : &t, nullptr) > 0;
  const bool interrupted = woken && fds[0].revents != 0;
  if (woken && !interrupted) ++backend_.counters_.wakeups;
  std::uint64_t rings = 0;
  if (life_.bell) (void)!::read(life_.bell.get(), &rings, sizeof rings);
  return interrupted;
}

Result<Progress> FakeWaiter::poll(Duration slice) {
  if (const auto begun = backend_.begin(); !begun) return fail(begun.error());
  if (const auto& after = backend_.faults_.hang_wait; after && polls_++ >= *after) hang();
  const Deadline end = later(Clock::now(), slice);
  if (!closed_until_) closed_until_ = later(Clock::now(), backend_.faults_.grant_after);
  for (;;) {
    const Deadline sent = Clock::now();
    Step step = sent < *closed_until_ ? held_back() : ask();
    if (std::holds_alternative<Granted>(step.progress) && backend_.lose(RequestKind::acquire)) {
      unknown_since_ = sent;
      return fail(lost_reply("acquire"));
    }
    if (!std::holds_alternative<Waiting>(step.progress) || Clock::now() >= end)
      return std::move(step.progress);
    if (sleep_until(std::min(end, step.wake_at), step)) return std::move(step.progress);
  }
}

Result<void> FakeWaiter::cancel() {
  if (const auto begun = backend_.begin(); !begun) return fail(begun.error());
  const Micros now = now_us();
  Table table;
  Entry* const known_one = backend_.known(table, request_.key, now);
  if (!known_one) return {};
  Entry& e = *known_one;
  e.spent.insert(request_.owner);
  e.state.cancel(request_.owner);
  e.state.release(request_.owner, now);
  backend_.held_.erase({backend_.name(request_.key), request_.owner});
  life_ = Life{};
  e.settle(now, false);
  return {};
}

}  // namespace dlock::fake
